// Applies an overlay to the trace of a cluster: what each recorded job is taken to have trained on.
//
// It is drawn by the seed and the job's own texts, job by job in the order of submission. So a part
// of a trace is assigned as it is within the whole, as far as the histories of its users are in the
// part.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "programs/input/overlay_model.h"
#include "traces/job_trace.h"

namespace batchflow::sim {

// Counts of jobs that cannot be replayed, by reason.
struct LeftOut {
  std::uint64_t without_gpus = 0;
  std::uint64_t without_duration = 0;  // unknown, or zero: they never ran
  std::uint64_t without_start = 0;     // where jobs start as recorded
  std::uint64_t too_large = 0;         // need more GPUs than the cluster has
  std::uint64_t by_window = 0;         // --from, --to
  std::uint64_t by_scale = 0;          // --scale-gpus
  // Not left out, but taken to train slower than drawn: as fast as their nodes could have fed them.
  std::uint64_t slowed_down = 0;
  std::uint64_t parts_of_gpus = 0;  // not left out either; these jobs get a whole GPU for a part
  traces::TraceTime begins_ns = 0;  // when the first replayed job was submitted
};

// Each with what to do about it, where something can be done.
std::vector<std::pair<const char*, std::uint64_t>> left_out_reasons(const LeftOut& out);

struct AssignedJob {
  std::uint32_t record = 0;  // index in the trace
  std::uint32_t gpus = 1;    // a part of a GPU counts as one
  std::uint32_t dataset = 0;
  std::uint32_t variant = 0;  // how it prepares: 0 as most jobs do, else as its user does
  Duration compute{0};        // of its GPUs
  double samples_per_s = 0;   // of one GPU
  double passes = 0;          // over its dataset
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

Assignment assign(const traces::JobTrace& trace, const input::OverlayModel& overlay,
                  std::uint64_t seed);

}  // namespace batchflow::sim
