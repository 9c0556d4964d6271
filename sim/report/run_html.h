// The results of runs, as a report for people: tables and plots side by side.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "programs/output/results.h"

namespace batchflow::sim {

// All runs keep their series. `more` is HTML that stands after the summary.
std::string run_html(std::span<const output::RunResult> runs, const std::string& more = "");

}  // namespace batchflow::sim
