// What a replay tells beyond its runs: how long jobs took and queued, what stalls cost, who was
// served how, and how far it all is from what no policy can beat.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "configs/reader/results.h"
#include "configs/reader/scenario.h"
#include "sim/cluster_replay/assignment.h"
#include "traces/job_trace.h"

namespace batchflow::sim {

// Of durations or ratios, over jobs.
struct Distribution {
  double mean = 0;
  double p50 = 0;
  double p95 = 0;
  double p99 = 0;
};
Distribution distribution(std::vector<double> values);

struct ReplaySummary {
  std::string label;
  std::uint64_t seed = 0;
  std::uint64_t jobs = 0;
  std::uint64_t jobs_done = 0;
  Distribution completion_s;  // from submission to end
  Distribution queueing_s;    // from submission to GPUs
  Distribution stall_ratio;   // of a job's time
  double gpu_h = 0;           // that jobs held GPUs
  double gpu_h_lost = 0;      // of these, in which they waited for data
  double cached_bytes_mean = 0;
  double cached_bytes_most = 0;
  std::uint64_t users = 0;
  // Of users' mean slowdown, time / compute: 1 when all are served alike, 1/users when one has all.
  double fairness = 0;
  double user_slowdown_worst = 0;
};
ReplaySummary summary_of(const RunResult& run);

// Times that no policy can beat: each resource for itself, with perfect caches and sharing.
struct FluidBound {
  double gpu_s = 0;          // all GPUs compute all the time
  double storage_s = 0;      // every data set that is used is read once
  double preparation_s = 0;  // what can be shared is prepared once; what can be kept decoded, too
  double arrivals_s = 0;     // the last of the jobs computes on from when it may begin
  double samples = 0;        // that are trained on
  double least_s() const;
  double samples_per_s() const { return least_s() > 0 ? samples / least_s() : 0; }
};
FluidBound fluid_bound(const Scenario& scenario);

// The jobs that are replayed and those that are not, in a line.
std::string left_out_text(const JobTrace& trace, const LeftOut& out, std::size_t jobs);

std::string replay_table(std::span<const RunResult> runs, const FluidBound& bound);
// Members of the JSON beside `runs`.
std::string replay_json(std::span<const RunResult> runs, const FluidBound& bound,
                        const LeftOut& out);

// A time as it is written for --from and --to: a day or an instant as the trace's clock shows it,
// or a duration after the first job. kNoTime: nothing is written. Throws ConfigError.
TraceTime window_time(const char* flag, const std::string& text, const JobTrace& trace);

}  // namespace batchflow::sim
