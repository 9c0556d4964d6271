#include "programs/input/quantities.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "core/base/check.h"
#include "core/base/random.h"

namespace batchflow::input {

double Curve::at(double x) const {
  BF_CHECK(!points.empty());
  const auto after = std::upper_bound(points.begin(), points.end(), x,
                                      [](double value, const Point& p) { return value < p.x; });
  if (after == points.begin()) return points.front().y;
  const Point& low = *std::prev(after);
  if (after == points.end()) return low.y;
  return low.y + (after->y - low.y) * (x - low.x) / (after->x - low.x);
}

double uniform(Random& random) {
  return (static_cast<double>(random.draw() >> 11) + 0.5) * 0x1p-53;
}

namespace {

double normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(uniform(random)));
  return radius * std::cos(2 * std::numbers::pi * uniform(random));
}

}  // namespace

double Spread::draw(Random& random, double count) const {
  if (ratio == 0) return 1;
  const double narrowed = ratio / std::sqrt(std::max(count, 1.0));
  // A sum of exponential quantities is not exponential, and one of uniform quantities is not
  // uniform; a lognormal of the same spread is close to both.
  if (shape == Shape::exponential && count <= 1) return -std::log(uniform(random));
  if (shape == Shape::uniform && count <= 1) {
    return std::max(0.0, 1 + ratio * std::numbers::sqrt3 * (2 * uniform(random) - 1));
  }
  if (shape == Shape::normal) return std::max(0.0, 1 + narrowed * normal(random));
  const double variance = std::log1p(narrowed * narrowed);
  return std::exp(std::sqrt(variance) * normal(random) - variance / 2);
}

std::uint64_t Pauses::count(Random& random, std::uint64_t operations) const {
  constexpr double kMany = 64;
  const auto all = static_cast<double>(operations);
  const double mean = share * all;
  if (mean <= 0 || share >= 1) return share >= 1 ? operations : 0;
  if (mean > kMany) {
    const double drawn = mean + std::sqrt(mean * (1 - share)) * normal(random);
    return static_cast<std::uint64_t>(std::clamp(std::round(drawn), 0.0, all));
  }
  // The distance between two operations that are held up is geometric.
  std::uint64_t held_up = 0;
  const double per_operation = std::log1p(-share);
  for (double at = 0; (at += 1 + std::floor(std::log(uniform(random)) / per_operation)) <= all;) {
    ++held_up;
  }
  return held_up;
}

Spread read_spread(config::ConfigSection& section, std::string_view key) {
  Spread spread;
  const std::string name(key);
  spread.shape = section.choice(name + "_shape", {"lognormal", "exponential", "normal", "uniform"},
                                spread.shape);
  const bool exponential = spread.shape == Spread::Shape::exponential;
  const auto jitter = section.number(name + "_jitter", exponential ? 1 : 0, 0, 100);
  if (exponential && jitter != 1) {
    section.refuse(name + "_jitter", "an exponential quantity deviates by its mean",
                   "leave it out, or write shape lognormal");
  }
  spread.ratio = jitter;
  return spread;
}

}  // namespace batchflow::input
