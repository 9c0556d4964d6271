// A cluster's trace as a scenario: jobs that train for as long as they were recorded to compute, at
// a grain that makes months of them affordable.
//
// Every job's GPUs compute as long as the overlay says that they did, whatever the grain; what the
// replay finds is how long they wait for data, and for GPUs. A data set is cut into so many items
// (`items`), caches hold items, and a job takes about `steps` steps: blocks hold a part of a pass
// over the data set, or several passes. Jobs share prepared blocks with jobs of their data set that
// prepare alike and have blocks of the same size; encoded and decoded items with all of them.
//
// What is coarse is stated: a block lies in memory as one of the engine's size, because it stands
// for a stream of those; and a part of a node's cores prepare it together, as they would prepare
// the many blocks it stands for: a loader's workers of one rank, or all of a node in
// `workers_per_node` groups.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "configs/reader/scenario.h"
#include "sim/cluster_replay/assignment.h"

namespace batchflow::sim {

struct ReplayGrain {
  std::uint64_t items = 64;  // a data set is cut into, at most
  std::uint64_t steps = 12;  // a job of an hour takes, about; others by the root of their time
  std::uint64_t workers_per_node = 4;  // each has its part of the cores
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
