#include "sim/report/figure_axes.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace batchflow::sim {

Axis axis_of(const Figure& figure) {
  const std::string field = figure.field;
  if (field == "stall_fraction" || field == "au" || field == "hit_ratio") return Axis::ratio;
  if (field == "storage_bytes") return Axis::bytes;
  return field.ends_with("_s") && field != "samples_per_s" ? Axis::seconds : Axis::count;
}

std::vector<double> spaced(std::vector<double> numbers) {
  constexpr double kLogarithmsFrom = 8;
  if (!numbers.empty() && numbers.front() > 0 &&
      numbers.back() / numbers.front() >= kLogarithmsFrom)
    for (double& number : numbers) number = std::log10(number);
  return numbers;
}

Scale scale_of(const std::vector<Estimate>& estimates) {
  constexpr double kPowersFrom = 100;
  double least = INFINITY;
  double top = 0;
  for (const Estimate& estimate : estimates) {
    if (estimate.count == 0 || !std::isfinite(estimate.mean)) continue;
    const double margin = std::isfinite(estimate.margin) ? estimate.margin : 0;
    least = std::min(least, estimate.mean);
    top = std::max(top, estimate.mean + margin);
  }
  const bool powers = least > 0 && least < INFINITY && top / least >= kPowersFrom;
  return {top, powers ? least : 0};
}

}  // namespace batchflow::sim
