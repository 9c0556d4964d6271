// The ids by which the engine knows the jobs of a scenario.
//
// The first id of a job is its index. A job that goes back to a checkpoint joins anew, under an id
// that was never used: the engine takes each id once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/types.h"

namespace batchflow::world {

class JobIds {
 public:
  explicit JobIds(std::size_t jobs) : jobs_(jobs) {}

  JobId another(std::uint32_t index) {
    later_.push_back(index);
    return JobId(static_cast<std::uint32_t>(jobs_ + later_.size() - 1));
  }
  std::uint32_t index_of(JobId id) const {
    return id.value < jobs_ ? id.value : later_[id.value - jobs_];
  }

 private:
  std::size_t jobs_;
  std::vector<std::uint32_t> later_;  // the index of the job that got each further id
};

}  // namespace batchflow::world
