// The trace of a cluster as a scenario: its jobs train for as long as they were recorded to
// compute, at a grain that makes months of jobs affordable.
//
// The GPUs of every job compute as long as the overlay says, at any grain. The replay finds how
// long the jobs wait for data, and for GPUs. A dataset is cut into `items` items, and caches hold
// items. A job takes about `steps` steps: a block holds a part of a pass over the dataset, or
// several passes. Jobs share prepared blocks with the jobs of their dataset that prepare alike and
// have blocks of the same size. They share encoded and decoded items with all jobs of the dataset.
//
// What is coarse: a block stands for a stream of blocks of the engine's size, and takes the memory
// of one. Its samples are read while it is prepared. All cores of a node prepare it beside others;
// without sharing, all cores of a loader's ranks there. A job uses it as its samples come. So
// nothing is prepared ahead, and a step takes as long as the slowest of its storage, network, cores
// and GPUs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "programs/input/scenario.h"
#include "sim/cluster_replay/assignment.h"

namespace batchflow::sim {

struct ReplayGrain {
  // The most items that a dataset is cut into. It gets enough that most of its jobs go through some
  // of them and that the cache of a node holds many of them; at least 16, where the limit allows
  // it.
  std::uint64_t items = 256;
  std::uint64_t steps =
      4;  // that a job of an hour takes, about; other jobs by the root of their time
  // Batch by batch, as a single job would be simulated: an item has the batch of one GPU, and none
  // of the above holds. For windows of a trace, to see what the coarse grain leaves out.
  bool fine = false;
};

struct ReplayWindow {
  traces::TraceTime from = traces::kNoTime;  // of submission
  traces::TraceTime to = traces::kNoTime;
  double scale = 1;  // of the cluster's nodes, and of the jobs
};

// The scenario that replays a trace on `base`, a scenario with a cluster and an engine alone.
input::Scenario replay_scenario(input::Scenario base, const traces::JobTrace& trace,
                                const input::OverlayModel& overlay, const ReplayGrain& grain,
                                const ReplayWindow& window, LeftOut& left_out);

}  // namespace batchflow::sim
