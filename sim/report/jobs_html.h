// The jobs of runs, in a report: what each waited for, and how busy things were meanwhile.
#pragma once

#include <span>
#include <string>

#include "programs/output/results.h"

namespace batchflow::sim {

// A section of run_html.
std::string jobs_html(std::span<const output::RunResult> runs);

}  // namespace batchflow::sim
