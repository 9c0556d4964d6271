// Runs of a simulator's scenario on a live service: the scenario as toy jobs, their outcomes as the
// result of a run, in the form in which `batchflow-sim run` writes it, and data for scenarios that
// have none.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "programs/input/scenario.h"
#include "programs/output/results.h"
#include "runtime/toys/toy_job.h"

namespace batchflow::ctl {

// The service's names for the scenario's names. A name that is not here is the same at the service.
struct LiveNames {
  std::map<std::string, std::string> datasets;
  std::map<std::string, std::string> pipelines;
};

// `time_scale` multiplies all times that toy jobs sleep. Throws ConfigError for what a service
// cannot do.
std::vector<toys::ToyJob> make_toys(const input::Scenario& scenario, const LiveNames& names,
                                    const std::string& service, double time_scale);

// `before` and `after` are two answers to `status`. What the service does not measure is 0.
output::RunResult live_results(const input::Scenario& scenario,
                               std::span<const toys::ToyOutcome> outcomes, double time_scale,
                               const nlohmann::json& before, const nlohmann::json& after);

// Makes data: as many samples of as many bytes as the scenario says. The bytes are random, and the
// same each time.
// Makes a folder in `folder` for each dataset of the scenario, with a .npy file that has a row of
// bytes for each sample. A file that is there already and has the same size stays. Answers the path
// of each dataset, by its name. Throws ConfigError where all would take more than `most` bytes.
std::map<std::string, std::string> make_data(const input::Scenario& scenario,
                                             const std::filesystem::path& folder, Bytes most);

}  // namespace batchflow::ctl
