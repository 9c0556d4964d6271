// Checks that a job gets each sample once an epoch, only by the sample keys that its ranks see.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/client/batchflow.h"

namespace batchflow::toys {

class EpochCheck {
 public:
  // `whole`: all of `samples` must have come when the epoch ends. Otherwise it only checks that no
  // sample comes twice.
  EpochCheck(std::uint64_t samples, std::uint32_t ranks, bool whole)
      : samples_(samples), ranks_(ranks), whole_(whole) {}

  // Any rank's thread may call it. Answers what is wrong; empty: nothing.
  std::string add(const bf_batch& batch);

 private:
  struct Epoch {
    std::vector<bool> had;
    std::uint64_t count = 0;
    std::uint32_t ranks_through = 0;
  };
  const std::uint64_t samples_;
  const std::uint32_t ranks_;
  const bool whole_;  // each epoch has all samples
  std::mutex mutex_;
  std::map<std::uint32_t, Epoch> epochs_;  // those that are not over
};

}  // namespace batchflow::toys
