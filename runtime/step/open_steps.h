// The functions in Python that pipelines have open now, so that a function which several pipelines
// bring has one set of processes.
//
// A script with a sampler that says a new order for each epoch brings the same function again and
// again, each time for another dataset: the list of that epoch. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/step/step_plugin.h"

namespace batchflow::step {

class OpenSteps {
 public:
  using Open = std::function<std::shared_ptr<StepPlugin>()>;

  // The function that `key` names, else what `open` makes. `key` has all that decides what its
  // processes are. Two callers at a time may both open one; it then has two sets of processes.
  std::shared_ptr<StepPlugin> find(const std::string& key, const Open& open);

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<StepPlugin>> open_;
};

}  // namespace batchflow::step
