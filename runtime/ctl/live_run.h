// A simulator's scenario as toy jobs, which `batchflowctl run` runs on a service. scenario_data.h
// makes data for scenarios that have none, and live_results.h has the results of a run.
#pragma once

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

}  // namespace batchflow::ctl
