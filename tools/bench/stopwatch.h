// The longest step of an engine, over rounds that all do the same.
#pragma once

#include <algorithm>
#include <ctime>
#include <vector>

#include "tools/bench/instant_backend.h"

namespace batchflow::bench {

// The CPU time of each step, the least of all rounds: an engine does the same in each round, and
// interruptions by a virtual machine do not hit the same step again and again.
class Stopwatch {
 public:
  void begin_round() { at_ = 0; }
  bool step(InstantBackend& backend) {
    const double start = now_us();
    const bool more = backend.step();
    const double took = now_us() - start;
    if (at_ == least_us_.size()) least_us_.push_back(took);
    least_us_[at_] = std::min(least_us_[at_], took);
    ++at_;
    return more;
  }
  double longest_us() const { return *std::max_element(least_us_.begin(), least_us_.end()); }

 private:
  static double now_us() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
  }

  std::vector<double> least_us_;  // by number in the round
  std::size_t at_ = 0;
};

}  // namespace batchflow::bench
