// Whether a job is handed each sample once an epoch, by nothing but the ids its ranks see.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/client/batchflow.h"

namespace batchflow {

class EpochCheck {
 public:
  // `whole`: all of `samples` must have come when the epoch ends, and not only none twice.
  EpochCheck(std::uint64_t samples, std::uint32_t ranks, bool whole)
      : samples_(samples), ranks_(ranks), whole_(whole) {}

  // By any rank's thread. Answers what is wrong; empty: nothing.
  std::string add(const bf_batch& batch);

 private:
  struct Epoch {
    std::vector<bool> had;
    std::uint64_t count = 0;
    std::uint32_t ranks_through = 0;
  };
  const std::uint64_t samples_;
  const std::uint32_t ranks_;
  const bool whole_;
  std::mutex mutex_;
  std::map<std::uint32_t, Epoch> epochs_;  // that are not over
};

}  // namespace batchflow
