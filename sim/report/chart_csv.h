// The numbers of figures as CSV.
#pragma once

#include <string>

#include "sim/report/chart.h"

namespace batchflow::sim {

// A column for each line, and one for its margins if it has some.
std::string csv_of(const Chart& chart);
// A row for each part.
std::string csv_of(const Bars& bars);
std::string csv_of(const HeatMap& map);

}  // namespace batchflow::sim
