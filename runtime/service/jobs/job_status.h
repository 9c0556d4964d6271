// What people and ranks ask about a job: how far it is, and what its ranks wait for.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "core/base/types.h"
#include "runtime/protocol/messages.h"
#include "runtime/service/backend/stalls.h"
#include "runtime/service/jobs/ideal_steps.h"

namespace batchflow::service {

// How long all jobs have waited for batches and computed so far, also those that have left.
struct WaitTotals {
  double wait_s = 0;
  double compute_s = 0;
};

struct JobStatus {
  JobId id;
  std::string name;
  uid_t user = 0;
  std::string dataset;
  std::string pipeline;
  Order order = Order::relaxed;
  std::uint32_t batch_samples = 0;
  std::uint32_t world_size = 1;
  std::uint32_t ranks_here = 0;
  std::uint32_t remote_ranks = 0;  // of these, on other machines:
  std::set<std::string> from;
  bool running = false;  // the engine has admitted it
  bool left = false;     // it wants no more, and holds some of what it had
  std::uint32_t epoch = 0;
  std::uint64_t steps = 0;    // consumed, by the fastest rank
  std::uint64_t samples = 0;  // delivered
  std::uint64_t copied = 0;   // batches that were gathered
  std::uint64_t repeats = 0;
  Duration waited{0};  // for batches, all ranks together: stalls
  WaitHistogram waits_for_batches;
  Duration computed{0};
  // The same waits as this service measured them, by stage, with those that still go on.
  StageTimes stalls;
  std::uint32_t waiting = 0;  // ranks that wait for a batch now
  Duration waits{0};          // how long the longest of these has waited
  Stage waits_for = Stage::room;
  Duration waits_to_begin{0};  // for its ranks, or for the engine's admission
  std::uint32_t held = 0;      // batches
  Bytes batch_bytes = 0;       // that it may hold
  // What it asked for when it joined, and how far it is to its end: for what-ifs.
  std::optional<std::uint64_t> shuffle_seed;
  bool drop_last = false;  // without the incomplete step at an epoch's end
  protocol::OrderOptions order_options;
  std::uint32_t credits = 0;
  double weight = 1;
  double latency_target_s = 0;
  std::uint64_t exemplars = 0;    // that it rehearses from
  std::uint64_t steps_to_go = 0;  // of a rank; 0: not known
  PipelineId pipeline_id;
  Digest pipeline_hash = 0;
  std::uint64_t consumed = 0;  // batches, of all ranks
  IdealSteps::Status ideal;
  double compute_squares_s2 = 0;  // the squares of the times in `computed`, added up
};

struct ServedJob;
struct RankEnd;
JobStatus status_of(const ServedJob& job, const StallBook& stalls, Instant now);
// Which other ranks of its job the rank waits for, as text; empty: none.
std::string waits_for_ranks(const RankEnd& end);

}  // namespace batchflow::service
