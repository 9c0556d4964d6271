// The ideal steps of a job: its ranks give a batch again, as often as an operator has asked for, so
// that nothing is waited for. All ranks hear of it with the same step, and say what the steps took.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/types.h"

namespace batchflow::service {

class IdealSteps {
 public:
  struct Status {
    bool are_allowed = false;     // all ranks of the job allow them
    std::uint64_t asked = 0;      // how often they were asked for
    std::uint64_t steps = 0;      // that were asked for last
    std::uint64_t steps_all = 0;  // that ranks were told of so far
    std::uint32_t ranks_done = 0;
    Duration step_time{0};  // of the slowest of these ranks, in the mean
  };

  // They begin with the next step that all ranks can hear of.
  void ask(std::uint64_t steps) {
    status_.steps = waiting_ = steps;
    ++status_.asked;
    status_.ranks_done = 0;
    status_.step_time = Duration(0);
    measuring_.clear();
  }
  // How many the ranks are to be told of; 0: none.
  std::uint64_t waiting() const { return waiting_; }
  bool are_on() const {
    return waiting_ > 0 || std::count(measuring_.begin(), measuring_.end(), true) > 0;
  }
  void begun(std::size_t ranks) {
    status_.steps_all += waiting_;
    waiting_ = 0;
    measuring_.assign(ranks, true);
  }
  // The rank has measured `steps` of them. False: it was told of none.
  bool done(Rank rank, std::uint64_t steps, Duration took) {
    if (rank >= measuring_.size() || !measuring_[rank] || steps == 0 || steps > status_.steps)
      return false;
    measuring_[rank] = false;
    ++status_.ranks_done;
    status_.step_time = std::max(status_.step_time, took / static_cast<std::int64_t>(steps));
    return true;
  }
  const Status& status() const { return status_; }

 private:
  Status status_;
  std::uint64_t waiting_ = 0;
  std::vector<bool> measuring_;  // by rank
};

}  // namespace batchflow::service
