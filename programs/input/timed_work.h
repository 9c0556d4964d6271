// Works out what reads and preparations cost, from the times at which they went on side by side.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

#include "programs/input/observed_workload.h"

namespace batchflow::input {

// The mean of values, and their standard deviation over it.
struct MeanAndJitter {
  double mean = 0;
  double jitter = 0;
};
MeanAndJitter mean_and_jitter(const std::vector<double>& values);

// The same of many values, of which none is kept.
struct Sums {
  double count = 0;
  double sum = 0;
  double squares = 0;
  void add(double value) {
    count += 1;
    sum += value;
    squares += value * value;
  }
  MeanAndJitter result() const {
    if (count < 1 || sum <= 0) return {};
    const double mean = sum / count;
    const double variance =
        count < 2 ? 0 : std::max(0., squares / count - mean * mean) * count / (count - 1);
    return {mean, std::sqrt(variance) / mean};
  }
};

// Reads of a store, or samples that were prepared together.
struct TimedWork {
  Instant from;
  Instant to;
  double operations = 0;  // reads, or samples
  double bytes = 0;
};
std::optional<ObservedStore> estimate_store(std::vector<TimedWork> reads);

// The core time of one sample, for each preparation, where `workers` prepare on a node: with or
// without the help of idle workers, whichever explains the times better. `has_help` decides where
// both explain them.
std::vector<double> core_seconds(const std::vector<TimedWork>& preparations, std::size_t workers,
                                 bool has_help);

}  // namespace batchflow::input
