// The quantities of models beside plain numbers: curves measured at a few points, and quantities
// that vary. Doubles are used here and in the simulator; no decision of the engine comes from them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/config_value.h"
#include "core/base/random.h"
#include "core/base/types.h"
#include "programs/config/config.h"

namespace batchflow::input {

// Linear between its points, flat outside them.
struct Curve {
  struct Point {
    double x;
    double y;
  };
  std::vector<Point> points;  // x grows

  static Curve constant(double y) { return {{{0, y}}}; }
  bool empty() const { return points.empty(); }
  double at(double x) const;  // REQUIRES: !empty()
};

// How a quantity varies about its mean: as a lognormal, exponential, normal (cut at zero) or
// uniform distribution with this ratio of standard deviation to mean.
struct Spread {
  enum class Shape : std::uint8_t { lognormal, exponential, normal, uniform };
  double ratio = 0;  // 0: it does not vary
  Shape shape = Shape::lognormal;

  // Draws a factor of mean 1, for the mean of `count` independent quantities: the ratio falls with
  // the square root of `count`, and the shape is kept, so that one draw stands for many at any
  // grain.
  double draw(Random& random, double count = 1) const;
};

// Now and then an operation takes much longer: `share` of them are held up, for `length_s` beyond
// their usual time.
struct Pauses {
  double share = 0;
  double length_s = 0;
  Spread spread;  // of the length

  // How many of `operations` are held up.
  std::uint64_t count(Random& random, std::uint64_t operations) const;
};

inline double value_of(Ratio ratio) {
  return static_cast<double>(ratio.parts) / static_cast<double>(Ratio::kWhole);
}

// `KEY_jitter: 0.1` and `KEY_shape: lognormal|exponential|normal|uniform`.
Spread read_spread(config::ConfigSection& section, std::string_view key);

// In (0, 1).
double uniform(Random& random);

}  // namespace batchflow::input
