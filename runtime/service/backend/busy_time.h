// For how long at least one of several things was under way.
#pragma once

#include <chrono>
#include <cstdint>

namespace batchflow::service {

class BusyTime {
 public:
  void begin() {
    if (now_++ == 0) since_ = Clock::now();
  }
  // REQUIRES: begin() was called more often
  void end() {
    if (--now_ == 0) total_ += Clock::now() - since_;
  }
  std::uint64_t total_ns() const {
    const auto total = now_ > 0 ? total_ + (Clock::now() - since_) : total_;
    return static_cast<std::uint64_t>(std::chrono::nanoseconds(total).count());
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::uint32_t now_ = 0;
  Clock::time_point since_{};
  Clock::duration total_{0};
};

}  // namespace batchflow::service
