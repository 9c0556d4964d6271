// Where the figures of several runs stand in a chart.
#pragma once

#include <vector>

#include "sim/figures.h"
#include "sim/report/chart.h"

namespace batchflow::sim {

// What the y axis of the figure counts.
Axis axis_of(const Figure& figure);

// Rising numbers as far apart as they are, by their logarithms if the greatest is many times the
// least.
std::vector<double> spaced(std::vector<double> numbers);

// A y axis that charts have in common.
struct Scale {
  double top = 0;
  double least = 0;  // 0: even
};
// That for all these estimates; those of no run, or infinite ones, are passed over.
Scale scale_of(const std::vector<Estimate>& estimates);

}  // namespace batchflow::sim
