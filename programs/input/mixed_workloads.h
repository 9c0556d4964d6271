// Several workloads on one cluster: the jobs of other workloads and scenarios join a scenario, with
// all that they train on.
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
// file) to the scenario in `tree`. A dataset or a pipeline that both have, the same in each key, is
// added once. Any other entry with a name that is taken is renamed, and the answer has a sentence
// about it.
//
// Both may have the keys `cluster`, `engine`, `grain` and `scheduler`. Those in `settled` hold for
// all, whatever the files say. Where the two differ in another, a ConfigError says what to write.
std::vector<std::string> add_workload(config::ConfigNode& tree, const AddedWorkload& added,
                                      const std::vector<std::string>& settled,
                                      const std::string& near = "");

}  // namespace batchflow::input
