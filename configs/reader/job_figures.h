// Figures over all jobs of a run, made of theirs: alike for simulated and for live ones.
#pragma once

#include <span>

#include "configs/reader/results.h"

namespace batchflow {

// Of the time after each job's first step, or of its only one, weighted by its ranks.
double mean_au(std::span<const JobResult> jobs);

// Of the samples asked for, those not read; reads that fail are read again, and may be more.
double hit_ratio(std::uint64_t read, std::uint64_t requested);

}  // namespace batchflow
