// The results of runs, as a table for people: one line a run, and for a single run one line a job.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "programs/output/results.h"

namespace batchflow::sim {

std::string run_table(std::span<const output::RunResult> runs);

// The name of a run among others.
std::string run_name(const output::RunResult& run);

// The first column is aligned to the left, the others to the right.
std::string aligned(const std::vector<std::vector<std::string>>& rows);

}  // namespace batchflow::sim
