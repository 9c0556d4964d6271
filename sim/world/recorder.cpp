#include "sim/world/recorder.h"

namespace batchflow::sim {

void Recorder::record(Instant now, const Counters& counters) {
  while (next_ <= now) {
    if (points_.size() == kPointsMost) {
      for (std::size_t i = 0; i < kPointsMost / 2; ++i) points_[i] = points_[2 * i];
      points_.resize(kPointsMost / 2);
      apart_ *= 2;
      // The points that are left stand at multiples of the new distance.
      next_ = points_.back().when + apart_;
      continue;
    }
    // A long time in which nothing happened needs no points in between.
    const Duration behind = now - next_;
    if (behind >= apart_ * static_cast<std::int64_t>(kPointsMost)) {
      apart_ *= 2;
      continue;
    }
    points_.push_back({next_, counters});
    next_ += apart_;
  }
}

}  // namespace batchflow::sim
