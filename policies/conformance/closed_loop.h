// Jobs of one stream, each of which needs its next block as soon as it has been served.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/engine/policy.h"

namespace batchflow::conformance {

// A block lasts a job its period, so faster jobs run ahead.
class ClosedLoop {
 public:
  explicit ClosedLoop(std::vector<Duration> periods)
      : periods_(std::move(periods)), blocks_(periods_.size()) {
    for (std::uint32_t i = 0; i < periods_.size(); ++i) {
      engine::WorkCandidate candidate{};
      candidate.job = JobId(i);
      candidate.asked = ++asked_;
      candidate.depth = 4;
      candidate.needed_by = 1 + i % 3;
      candidates_.push_back(candidate);
    }
  }

  // The job that was served, or what the policy answered if that is no job.
  std::size_t serve(engine::DispatchPolicy& policy) {
    const std::size_t choice = policy.next({Instant(Duration(++decisions_)), candidates_});
    if (choice >= candidates_.size()) return choice;
    engine::WorkCandidate& served = candidates_[choice];
    served.last_served = static_cast<std::uint64_t>(decisions_);
    served.asked = ++asked_;
    served.deadline += periods_[choice];
    ++blocks_[choice];
    const std::uint32_t slowest = *std::min_element(blocks_.begin(), blocks_.end());
    for (std::size_t i = 0; i < blocks_.size(); ++i) candidates_[i].lead = blocks_[i] - slowest;
    return choice;
  }
  std::vector<std::size_t> serve(engine::DispatchPolicy& policy, int times) {
    std::vector<std::size_t> served;
    for (int i = 0; i < times; ++i) served.push_back(serve(policy));
    return served;
  }
  const std::vector<engine::WorkCandidate>& candidates() const { return candidates_; }

 private:
  std::vector<Duration> periods_;
  std::vector<std::uint32_t> blocks_;  // that each has had
  std::vector<engine::WorkCandidate> candidates_;
  std::uint64_t asked_ = 0;
  std::int64_t decisions_ = 0;
};

// The most decisions between two in which the same job is served. None: it served no job at all.
inline std::optional<std::size_t> longest_wait(engine::DispatchPolicy& policy,
                                               const std::vector<Duration>& periods) {
  ClosedLoop loop(periods);
  std::vector<std::size_t> last(periods.size(), 0);
  std::size_t longest = 0;
  for (std::size_t decision = 1; decision <= 300 * periods.size(); ++decision) {
    const std::size_t served = loop.serve(policy);
    if (served >= periods.size()) return std::nullopt;
    last[served] = decision;
    for (const std::size_t at : last) longest = std::max(longest, decision - at);
  }
  return longest;
}

}  // namespace batchflow::conformance
