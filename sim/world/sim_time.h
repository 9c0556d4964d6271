// The only file where the engine's time and SimGrid's meet: integer nanoseconds here, doubles of
// seconds there (and in results, which people read).
//
// A double of seconds counts in units below half a nanosecond for 48 simulated days, and below a
// whole nanosecond until 97. So an instant that goes through a double comes back unchanged for 48
// days, and is 1 ns off at most until 97.
#pragma once

#include <cmath>

#include "core/base/seconds.h"

namespace batchflow::world {

// The time of many GPUs or cores together, for months: more than a Duration holds. Whole
// nanoseconds up to 104 days, and then as exact as a double.
using TotalTime = std::chrono::duration<double, std::nano>;

using batchflow::seconds;
inline double seconds(TotalTime time) {
  return time.count() * 1e-9;
}
inline double seconds(Instant instant) {
  return seconds(instant.time_since_epoch());
}
inline Duration duration_of(double seconds) {
  return Duration(std::llround(seconds * 1e9));
}
inline Instant instant_of(double seconds) {
  return Instant(duration_of(seconds));
}
// So much longer or shorter; exactly the same for a factor of one.
inline Duration scaled(Duration duration, double factor) {
  return factor == 1 ? duration
                     : Duration(std::llround(static_cast<double>(duration.count()) * factor));
}

}  // namespace batchflow::world
