// A run over time, at a bounded number of points: what reports draw.
//
// However long the run, there are at most 512 points about evenly apart. Each is taken at the first
// instant after it is due, so that it is exact. When there would be more points, every other one is
// left out and the distance doubles.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "core/base/types.h"
#include "programs/output/results.h"

namespace batchflow::world {

class Recorder {
 public:
  bool due(Instant now) const { return now >= next_; }
  void add(Instant now, output::SeriesPoint point) {
    points_.push_back(std::move(point));
    if (points_.size() == kPointsMost) {
      for (std::size_t i = 1; i < kPointsMost / 2; ++i) points_[i] = std::move(points_[2 * i]);
      points_.resize(kPointsMost / 2);
      apart_ *= 2;
    }
    next_ = now - now.time_since_epoch() % apart_ + apart_;
  }
  // The last point.
  void end(output::SeriesPoint point) {
    if (!points_.empty() && points_.back().time_s >= point.time_s) points_.pop_back();
    points_.push_back(std::move(point));
  }
  const std::vector<output::SeriesPoint>& points() const { return points_; }

 private:
  static constexpr std::size_t kPointsMost = 512;

  std::vector<output::SeriesPoint> points_;
  Duration apart_ = std::chrono::milliseconds(1);
  Instant next_{};
};

}  // namespace batchflow::world
