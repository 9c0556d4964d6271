// The counters of a run over time, at a bounded number of points: what reports draw.
//
// However long the run, there are between 256 and 512 points evenly apart: when there would be
// more, every other one is left out and the distance doubles.
#pragma once

#include <vector>

#include "core/types.h"
#include "sim/world/counters.h"

namespace batchflow::sim {

class Recorder {
 public:
  struct Point {
    Instant when;
    Counters counters;
  };

  // Called whenever time has gone on, with the counters as they stood until now.
  void advance(Instant now, const Counters& counters) {
    if (now >= next_) record(now, counters);
  }
  const std::vector<Point>& points() const { return points_; }

 private:
  static constexpr std::size_t kPointsMost = 512;
  void record(Instant now, const Counters& counters);

  std::vector<Point> points_;
  Duration apart_ = std::chrono::milliseconds(1);
  Instant next_{};
};

}  // namespace batchflow::sim
