// What `replay` is asked for, and the runs that answer it.
#pragma once

#include <string>
#include <vector>

#include "programs/input/fault_trace.h"
#include "programs/input/overlay_model.h"
#include "sim/cluster_replay/replay_report.h"
#include "sim/cluster_replay/replay_scenario.h"
#include "sim/job_log.h"
#include "sim/planned_runs.h"
#include "sim/variants.h"

namespace batchflow::sim {

struct ReplayOptions {
  JobLogOptions log;
  std::string cluster = "philly";
  std::string overlay = "mixed";
  std::string scheduler;              // empty: what `with_scheduler` chooses
  bool scheduler_is_assumed = false;  // `with_scheduler` chose a simulated scheduler
  std::string faults;                 // a file of nodes that were lost; empty: none
  std::string skip;  // simulated time that figures over all jobs leave out; empty: none
  std::string from;
  std::string to;
  double scale_gpus = 1;
  ReplayGrain grain;
  std::vector<std::string> policies;
  std::vector<std::string> overrides;
  std::vector<std::string> overlay_overrides;
  std::uint64_t seed = 1;
  std::uint64_t seeds = 1;
};

// Throws ConfigError.
input::OverlayModel overlay_of(const ReplayOptions& options);
// The scheduler where none is asked for: `recorded`, or `fifo` for a log without a start of any
// job.
ReplayOptions with_scheduler(ReplayOptions options, const traces::JobTrace& trace);
// Checks what is known before the trace is read. Throws ConfigError.
void check(const ReplayOptions& options);

// Makes the runs of one trace, which outlives the plan and them. The process of a run adds the
// jobs, so that many runs of many jobs fit into memory.
class ReplayPlan {
 public:
  // Throws ConfigError.
  ReplayPlan(const ReplayOptions& options, const traces::JobTrace& trace);

  // A run of each policy with each seed, policy by policy.
  std::vector<PlannedRun> runs(const input::OverlayModel& overlay) const;
  // What all of them have in common. `overlay` outlives it.
  Replayed replayed(const input::OverlayModel& overlay) const;

 private:
  input::Scenario scenario(input::Scenario base, const input::OverlayModel& overlay, LeftOut& out,
                           input::FaultTraceCounts& faults) const;

  const ReplayOptions& options_;
  const traces::JobTrace& trace_;
  ReplayWindow window_;
  std::vector<Variant> variants_;
};

}  // namespace batchflow::sim
