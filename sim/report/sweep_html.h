// The results of a study, as a report with plots.
#pragma once

#include <string>

#include "sim/sweep_report.h"

namespace batchflow::sim {

std::string sweep_html(const SweepResults& results);

}  // namespace batchflow::sim
