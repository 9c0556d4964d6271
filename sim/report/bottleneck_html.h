// What runs would gain from twice of something, in a report.
#pragma once

#include <span>
#include <string>

#include "programs/output/results.h"

namespace batchflow::sim {

// A section of run_html, of runs with their `bottlenecks`.
std::string bottlenecks_html(std::span<const output::RunResult> runs);

}  // namespace batchflow::sim
