// The time in which a loader has no service: since when, why, and when it looks for one again.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>

namespace batchflow::client {

class Absence {
 public:
  using Clock = std::chrono::steady_clock;

  // The loader gives up when it has lasted so long.
  void set_longest(Clock::duration longest) { longest_ = longest; }
  // The service is lost. If it was lost before, and no batch has come since, the absence began
  // then.
  void begin(std::string_view because, Clock::time_point now) {
    because_ = because;
    if (since_ != Clock::time_point{}) return;
    since_ = next_try_ = now;
    backoff_ = kBackoffFirst;
  }
  // A batch has come.
  void end() { since_ = {}; }
  void tried(Clock::time_point now) {
    next_try_ = now + backoff_;
    backoff_ = std::min(backoff_ * 2, kBackoffMost);
  }

  const std::string& because() const { return because_; }
  Clock::time_point next_try() const { return next_try_; }
  Clock::duration longest() const { return longest_; }
  Clock::time_point given_up_at() const { return since_ + longest_; }

 private:
  static constexpr Clock::duration kBackoffFirst = std::chrono::milliseconds(50);
  static constexpr Clock::duration kBackoffMost = std::chrono::seconds(1);

  Clock::duration longest_{};
  std::string because_;
  Clock::time_point since_{};
  Clock::time_point next_try_{};
  Clock::duration backoff_{};
};

}  // namespace batchflow::client
