// A scenario as toy jobs for a live service, and what came of them as a run's result: what
// `batchflow-sim run` writes of the same scenario.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "configs/reader/results.h"
#include "configs/reader/scenario.h"
#include "nlohmann/json_fwd.hpp"
#include "runtime/toys/toy_job.h"

namespace batchflow::ctl {

// What the scenario's names stand for at the service; those that are not here stand for themselves.
struct LiveNames {
  std::map<std::string, std::string> datasets;
  std::map<std::string, std::string> pipelines;
};

// `time_scale`: of all that is slept. Throws ConfigError for what a service cannot do.
std::vector<ToyJob> toys_of(const Scenario& scenario, const LiveNames& names,
                            const std::string& service, double time_scale);

// `before` and `after` are what the service said of itself. What it does not measure is 0.
RunResult lived(const Scenario& scenario, std::span<const ToyOutcome> outcomes, double time_scale,
                const nlohmann::json& before, const nlohmann::json& after);

}  // namespace batchflow::ctl
