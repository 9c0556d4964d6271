// Runs of a simulator's scenario on a live service: the scenario as toy jobs, and data for
// scenarios that have none. live_results.h has the results of a run.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "programs/input/scenario.h"
#include "runtime/toys/toy_job.h"

namespace batchflow::ctl {

// The service's names for the scenario's names. A name that is not here is the same at the service.
struct LiveNames {
  std::map<std::string, std::string> datasets;
  std::map<std::string, std::string> pipelines;

  std::string dataset(const std::string& name) const { return named(datasets, name); }
  std::string pipeline(const std::string& name) const { return named(pipelines, name); }

 private:
  static std::string named(const std::map<std::string, std::string>& names,
                           const std::string& name) {
    const auto found = names.find(name);
    return found == names.end() ? name : found->second;
  }
};

// `time_scale` multiplies all times that toy jobs sleep. Throws ConfigError for what a service
// cannot do.
std::vector<toys::ToyJob> make_toys(const input::Scenario& scenario, const LiveNames& names,
                                    const std::string& service, double time_scale);

// Makes data: as many samples of as many bytes as the scenario says. The bytes are random, and the
// same each time.
// Makes a folder in `folder` for each dataset of the scenario, with a .npy file that has a row of
// bytes for each sample. A file that is there already and has the same size stays. Answers the path
// of each dataset, by its name. Throws ConfigError where all would take more than `most` bytes.
std::map<std::string, std::string> make_data(const input::Scenario& scenario,
                                             const std::filesystem::path& folder, Bytes most);

}  // namespace batchflow::ctl
