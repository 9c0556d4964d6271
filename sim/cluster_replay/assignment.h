// An overlay laid over a cluster's trace: what each recorded job is taken to have trained on.
//
// Drawn by the seed and the job's own texts, job by job in the order of submission, so that a part
// of a trace is assigned as it is within the whole as far as its users' histories are in it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "configs/reader/overlay_model.h"
#include "traces/job_trace.h"

namespace batchflow::sim {

// Jobs that cannot be replayed, and why.
struct LeftOut {
  std::uint64_t without_gpus = 0;
  std::uint64_t without_duration = 0;  // not known, or none: they never ran
  std::uint64_t without_start = 0;     // where jobs start as recorded
  std::uint64_t too_large = 0;         // need more GPUs than the cluster has
  std::uint64_t by_window = 0;         // --from, --to
  std::uint64_t by_scale = 0;          // --scale-gpus
  // Not left out, but taken to be slower than drawn: as fast as their nodes could have fed them.
  std::uint64_t slowed_down = 0;
  std::uint64_t parts_of_gpus = 0;  // nor these, who have a whole one for a part
  TraceTime begins_ns = 0;          // when the first that is replayed was submitted
};

// With what to do about it, where there is something.
std::vector<std::pair<const char*, std::uint64_t>> left_out_reasons(const LeftOut& out);

struct AssignedJob {
  std::uint32_t record = 0;  // index in the trace
  std::uint32_t gpus = 1;    // a part of one counts as one
  std::uint32_t dataset = 0;
  std::uint32_t variant = 0;  // how it prepares: 0 as most do, else in its user's own way
  Duration compute{0};        // of its GPUs
  double samples_per_s = 0;   // of one GPU
  double passes = 0;          // over its data set
};

struct AssignedDataset {
  std::uint32_t class_index = 0;
  std::uint32_t number = 0;  // in its class
  std::uint64_t samples = 0;
};

struct Assignment {
  std::vector<AssignedJob> jobs;  // by submission
  std::vector<AssignedDataset> datasets;
};

Assignment assign(const JobTrace& trace, const OverlayModel& overlay, std::uint64_t seed);

}  // namespace batchflow::sim
