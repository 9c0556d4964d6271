#include "sim/world/recorder.h"

#include <utility>

namespace batchflow::world {

void Recorder::add(Instant now, output::SeriesPoint point) {
  points_.push_back(std::move(point));
  if (points_.size() == kPointsMost) {
    for (std::size_t i = 1; i < kPointsMost / 2; ++i) points_[i] = std::move(points_[2 * i]);
    points_.resize(kPointsMost / 2);
    apart_ *= 2;
  }
  next_ = now - now.time_since_epoch() % apart_ + apart_;
}

void Recorder::end(output::SeriesPoint point) {
  if (!points_.empty() && points_.back().time_s >= point.time_s) points_.pop_back();
  points_.push_back(std::move(point));
}

}  // namespace batchflow::world
