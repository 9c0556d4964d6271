// The sections of run_html.
#pragma once

#include <span>
#include <string>

#include "programs/output/results.h"

namespace batchflow::sim {

// The jobs of runs: what each waited for, and how busy resources were meanwhile.
std::string jobs_html(std::span<const output::RunResult> runs);

// How long jobs took and waited, as distributions. Empty where no run has enough jobs.
std::string job_times_html(std::span<const output::RunResult> runs);

// What runs, with their `bottlenecks`, would gain from twice as much of something.
std::string bottlenecks_html(std::span<const output::RunResult> runs);

// The faults of runs: what each fault met, and what recovery cost. Empty where no run had faults.
std::string faults_html(std::span<const output::RunResult> runs);

}  // namespace batchflow::sim
