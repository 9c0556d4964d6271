// The scratch memory that preparing one sample takes of the workers' budget. It is asked for as a
// whole before any of it is touched, so that a sample that does not fit is refused by its figures
// alone.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "runtime/memory/scratch.h"

namespace batchflow::prepare {

// The setting that bounds it, as people write it.
inline constexpr const char* kScratchSetting = "scratch of the node file";

inline std::string in_mib(Bytes bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

class SampleScratch {
 public:
  explicit SampleScratch(std::shared_ptr<memory::ScratchBudget> budget)
      : budget_(std::move(budget)), charge_(*budget_) {}

  // Called once for each sample; waits until that much is free. False: no sample may have it.
  bool take(Bytes bytes) {
    const Bytes most = budget_->limits().most();
    if (bytes > most) {
      problem_ = fmt::format("preparing it takes {}, of which a sample may have {} ({})",
                             in_mib(bytes), in_mib(most), kScratchSetting);
      return false;
    }
    charge_.take(bytes);
    return true;
  }
  // REQUIRES: the memory was given back to the system, but for what a worker always has
  void give_back() { charge_.give_back(); }

  bool is_large() const { return charge_.is_large(); }
  const memory::ScratchLimits& limits() const { return budget_->limits(); }
  const std::string& problem() const { return problem_; }

 private:
  const std::shared_ptr<memory::ScratchBudget> budget_;
  memory::ScratchCharge charge_;
  std::string problem_;
};

}  // namespace batchflow::prepare
