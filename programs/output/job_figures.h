// Figures over all jobs of a run, computed alike for simulated and for live jobs.
#pragma once

#include <span>

#include "programs/output/results.h"

namespace batchflow::output {

// The AU over the time after each job's first step, or of its only step, weighted by ranks.
double mean_au(std::span<const JobResult> jobs);

// The share of the requested samples that were not read. Failed reads are read again, so `read` may
// be more than `requested`.
double hit_ratio(std::uint64_t read, std::uint64_t requested);

}  // namespace batchflow::output
