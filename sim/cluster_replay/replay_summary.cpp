#include "sim/cluster_replay/replay_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/numbers.h"

namespace batchflow::sim {

namespace {

std::string hours_text(double hours) {
  return fmt::format("{} h", rate_text(hours));
}

constexpr ReplayFigure kFigures[] = {
    {"completion", [](const ReplaySummary& s) { return s.completion_s.mean; }, time_text, true,
     "from submission to end, mean over jobs"},
    {"p50", [](const ReplaySummary& s) { return s.completion_s.p50; }, time_text, false,
     "half of the jobs took so long or shorter"},
    {"p99", [](const ReplaySummary& s) { return s.completion_s.p99; }, time_text, false,
     "99 of 100 jobs took so long or shorter"},
    {"queueing", [](const ReplaySummary& s) { return s.queueing_s.mean; }, time_text, true,
     "from submission to GPUs, mean over jobs"},
    {"GPU time lost", [](const ReplaySummary& s) { return s.gpu_h_lost; }, hours_text, true,
     "GPU hours in which jobs waited for data"},
    {"of", [](const ReplaySummary& s) { return s.gpu_h; }, hours_text, false,
     "GPU hours that jobs held"},
    {"fairness of users", [](const ReplaySummary& s) { return s.fairness; },
     [](double value) { return value > 0 ? fmt::format("{:.3f}", value) : "-"; }, false,
     "Jain's index of users' slowdown: 1 when all are served alike; -: no user has a name"},
    {"cached", [](const ReplaySummary& s) { return s.cached_bytes_mean; },
     [](double bytes) { return size_text(static_cast<Bytes>(bytes)); }, false,
     "bytes kept, mean over time"},
};
constexpr std::size_t kHeadline = 4;

}  // namespace

Distribution distribution(std::vector<double> values) {
  Distribution result;
  if (values.empty()) return result;
  std::sort(values.begin(), values.end());
  for (const double value : values) result.mean += value;
  result.mean /= static_cast<double>(values.size());
  result.p50 = output::quantile(values, 0.5);
  result.p95 = output::quantile(values, 0.95);
  result.p99 = output::quantile(values, 0.99);
  return result;
}

double cached_bytes(const output::CachedBytes& cached) {
  return static_cast<double>(cached.encoded_dram + cached.decoded_dram + cached.prepared_dram +
                             cached.encoded_nvme + cached.decoded_nvme + cached.decoded_gpu);
}

ReplaySummary summary_of(const output::RunResult& run) {
  ReplaySummary sum;
  sum.label = run.label;
  sum.seed = run.seed;
  sum.whole = run.failure.empty() && !run.interrupted;
  sum.makespan_s = run.makespan_s;
  sum.jobs = run.jobs.size();
  std::vector<double> completion;
  std::vector<double> queueing;
  std::vector<double> stalls;
  for (const output::JobResult& job : run.jobs) {
    const double held_s = job.time_s - job.down_s;  // a job leaves its GPUs while it is preempted
    sum.gpu_h += held_s * static_cast<double>(job.ranks) / 3600;
    sum.gpu_h_lost += (job.stall_s + job.idle_s) * static_cast<double>(job.ranks) / 3600;
    if (job.state != "done") continue;
    ++sum.jobs_done;
    completion.push_back(job.ended_s - job.arrived_s);
    queueing.push_back(job.started_s - job.arrived_s);
    if (held_s > 0) stalls.push_back((job.stall_s + job.idle_s) / held_s);
  }
  sum.completion_s = distribution(std::move(completion));
  sum.queueing_s = distribution(std::move(queueing));
  sum.stall_ratio = distribution(std::move(stalls));
  const std::vector<double> slowdowns = output::user_slowdowns(run.jobs);
  sum.users = slowdowns.size();
  if (!slowdowns.empty()) {
    sum.fairness = run.aggregate.user_fairness;
    sum.user_slowdown_worst = slowdowns.back();
  }
  double area = 0;
  for (std::size_t i = 0; i < run.series.size(); ++i) {
    const double bytes = cached_bytes(run.series[i].cached);
    sum.cached_bytes_most = std::max(sum.cached_bytes_most, bytes);
    if (i > 0) area += bytes * (run.series[i].time_s - run.series[i - 1].time_s);
  }
  if (!run.series.empty() && run.series.back().time_s > 0) {
    sum.cached_bytes_mean = area / run.series.back().time_s;
  }
  return sum;
}

std::vector<ReplayGroup> by_label(std::span<const output::RunResult> runs) {
  std::vector<ReplayGroup> groups;
  for (const output::RunResult& run : runs) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const ReplayGroup& other) {
      return other.front().label == run.label;
    });
    if (group == groups.end()) {
      groups.push_back({summary_of(run)});
    } else {
      group->push_back(summary_of(run));
    }
  }
  return groups;
}

std::string name_of(const ReplayGroup& group) {
  return group.front().label.empty() ? "replay" : group.front().label;
}

std::span<const ReplayFigure> replay_figures() {
  return kFigures;
}

const ReplayFigure& headline() {
  return kFigures[kHeadline];
}

Estimate estimate_of(const ReplayGroup& group, const ReplayFigure& figure) {
  std::vector<double> values;
  for (const ReplaySummary& summary : group) values.push_back(figure.value(summary));
  return estimate(values);
}

namespace {

// Values of the seeds with runs that ended in both groups.
struct Pairs {
  std::vector<double> first;
  std::vector<double> values;
};

Pairs pairs_of(const ReplayGroup& first, const ReplayGroup& group, const ReplayFigure& figure) {
  Pairs pairs;
  for (const ReplaySummary& summary : group) {
    const auto base = std::find_if(first.begin(), first.end(), [&](const ReplaySummary& other) {
      return other.seed == summary.seed && other.whole;
    });
    if (base == first.end() || !summary.whole) continue;
    pairs.first.push_back(figure.value(*base));
    pairs.values.push_back(figure.value(summary));
  }
  return pairs;
}

}  // namespace

Estimate change_of(const ReplayGroup& first, const ReplayGroup& group, const ReplayFigure& figure) {
  const Pairs pairs = pairs_of(first, group, figure);
  return pairs.values.empty() ? Estimate{} : paired_difference(pairs.first, pairs.values);
}

std::string change_text(const ReplayGroup& first, const ReplayGroup& group,
                        const ReplayFigure& figure) {
  const Pairs pairs = pairs_of(first, group, figure);
  if (pairs.values.empty()) return "-";
  const double base = estimate(pairs.first).mean;
  const Estimate change = paired_difference(pairs.first, pairs.values);
  if (base == 0) return change.mean == 0 ? "+0.0 %" : "-";
  const std::string text = fmt::format("{:+.1f} %", 100 * change.mean / base);
  if (change.count < 2) return text;
  return text +
         fmt::format(" +- {:.1f}{}", 100 * change.margin / base, is_significant(change) ? "*" : "");
}

}  // namespace batchflow::sim
