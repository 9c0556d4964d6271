// The jobs of runs, in a report: what each waited for, and how busy things were meanwhile.
#pragma once

#include <span>
#include <string>

#include "configs/reader/results.h"

namespace batchflow::sim {

// A section of run_html.
std::string jobs_html(std::span<const RunResult> runs);

}  // namespace batchflow::sim
