// The figures of replayed runs: how long jobs took and queued, what stalls cost, and how evenly
// users were served. Runs of one policy, which differ by their seed, are compared with those of
// another.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "programs/output/results.h"
#include "sim/figures.h"

namespace batchflow::sim {

// Durations or ratios, over jobs.
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
  bool whole = true;  // neither interrupted nor failed
  double makespan_s = 0;
  std::uint64_t jobs = 0;
  std::uint64_t jobs_done = 0;
  Distribution completion_s;  // from submission to end
  Distribution queueing_s;    // from submission to GPUs
  Distribution stall_ratio;   // stall over the time in which the job had GPUs
  double gpu_h = 0;           // that jobs held GPUs
  double gpu_h_lost = 0;      // of these, in which jobs waited for data
  double cached_bytes_mean = 0;
  double cached_bytes_most = 0;
  std::uint64_t users = 0;
  // Of users' mean slowdown, time / compute: 1 when all are served alike, 1/users when one user has
  // everything.
  double fairness = 0;
  double user_slowdown_worst = 0;
};
ReplaySummary summary_of(const output::RunResult& run);

double cached_bytes(const output::CachedBytes& cached);

// The runs of one policy.
using ReplayGroup = std::vector<ReplaySummary>;
// In the order of the runs.
std::vector<ReplayGroup> by_label(std::span<const output::RunResult> runs);
std::string name_of(const ReplayGroup& group);

struct ReplayFigure {
  const char* name;
  double (*value)(const ReplaySummary&);
  std::string (*text)(double);
  bool differs;  // compared between policies
  const char* help;
};
std::span<const ReplayFigure> replay_figures();
// The figure by which policies are compared first: GPU hours lost.
const ReplayFigure& headline();

Estimate estimate_of(const ReplayGroup& group, const ReplayFigure& figure);
// `group` less `first`, over the seeds with runs that ended in both; `count` is 0 where there are
// none.
Estimate change_of(const ReplayGroup& first, const ReplayGroup& group, const ReplayFigure& figure);
// `-3.1 % +- 0.4`, relative to `first`; a `*` marks a difference that is no chance.
std::string change_text(const ReplayGroup& first, const ReplayGroup& group,
                        const ReplayFigure& figure);

}  // namespace batchflow::sim
