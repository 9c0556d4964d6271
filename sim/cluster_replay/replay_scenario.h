// A cluster's trace as a scenario: jobs that train for as long as they were recorded to compute, at
// a grain that makes months of them affordable.
//
// Every job's GPUs compute as long as the overlay says that they did, whatever the grain; what the
// replay finds is how long they wait for data, and for GPUs. A data set is cut into so many items
// (`items`), caches hold items, and a job takes about `steps` steps: blocks hold a part of a pass
// over the data set, or several passes. Jobs share prepared blocks with jobs of their data set that
// prepare alike and have blocks of the same size; encoded and decoded items with all of them.
//
// What is coarse is stated: a block stands for a stream of blocks of the engine's size, and takes
// the memory of one. What it is made from comes while it is prepared, all cores of a node (of a
// loader's ranks there, without sharing) prepare it beside others, and it is used as it comes: so
// nothing is prepared ahead, and a step takes as long as the slowest of its storage, network, cores
// and GPUs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "configs/reader/scenario.h"
#include "sim/cluster_replay/assignment.h"

namespace batchflow::sim {

struct ReplayGrain {
  // A data set is cut into, at most: so many that most of its jobs go through some of them, and
  // that a node's cache holds many of them; 16 at least, as far as this lets it.
  std::uint64_t items = 256;
  std::uint64_t steps = 4;  // a job of an hour takes, about; others by the root of their time
  // Batch by batch, as a job would be simulated alone: items are of a batch of one GPU, and none of
  // the above holds. For windows of a trace, to see what the coarse grain leaves out.
  bool fine = false;
};

struct ReplayWindow {
  TraceTime from = kNoTime;  // of submission
  TraceTime to = kNoTime;
  double scale = 1;  // of the cluster's nodes, and of the jobs
};

// A trace, as it is to be replayed on `base`, a scenario of a cluster and an engine alone.
Scenario replay_scenario(Scenario base, const JobTrace& trace, const OverlayModel& overlay,
                         const ReplayGrain& grain, const ReplayWindow& window, LeftOut& left_out);

}  // namespace batchflow::sim
