// The results of a scenario that ran live, in the form in which `batchflow-sim run` writes them:
// the figures of jobs and service, what was not measured, and a remark that names all that differs
// from the scenario.
#pragma once

#include <span>

#include "nlohmann/json_fwd.hpp"
#include "programs/input/scenario.h"
#include "programs/output/results.h"
#include "runtime/ctl/live_run.h"
#include "runtime/toys/toy_job.h"

namespace batchflow::ctl {

// `before` and `after` are two answers to `status`.
output::RunResult live_results(const input::Scenario& scenario, const LiveNames& names,
                               std::span<const toys::ToyOutcome> outcomes, double time_scale,
                               const nlohmann::json& before, const nlohmann::json& after);

}  // namespace batchflow::ctl
