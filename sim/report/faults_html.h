// The faults of runs, in a report: what each fault met, and what recovery cost.
#pragma once

#include <span>
#include <string>

#include "programs/output/results.h"

namespace batchflow::sim {

// A section of run_html; empty where no run had faults.
std::string faults_html(std::span<const output::RunResult> runs);

}  // namespace batchflow::sim
