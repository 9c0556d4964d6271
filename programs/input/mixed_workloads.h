// Several workloads on one cluster: what other workloads and scenarios train on joins a scenario.
#pragma once

#include <string>
#include <vector>

#include "programs/config/config.h"

namespace batchflow::input {

// A workload to add: `w3-coco`, `other.yaml`, or `w3-coco@10min`, with jobs that come ten minutes
// later.
struct AddedWorkload {
  std::string name;
  Duration after{0};
};
// Throws ConfigError.
AddedWorkload parse_added_workload(const std::string& text);

// Adds the datasets, pipelines, jobs and faults of a workload or scenario (the name or path of a
// file) to the scenario in `tree`. A dataset or a pipeline that both have, key by key, is one. What
// has a name that another has already is renamed, and the answer says so, a sentence each.
//
// `settled` has the keys that hold for all, whatever files say: `cluster`, `engine`, `grain`,
// `scheduler`. Any other key of these in which the two differ is a ConfigError that says what to
// write.
std::vector<std::string> add_workload(config::ConfigNode& tree, const AddedWorkload& added,
                                      const std::vector<std::string>& settled,
                                      const std::string& near = "");

}  // namespace batchflow::input
