// The results of jobs: while they run, and in the end.
#include <algorithm>
#include <utility>

#include "sim/world/jobs.h"
#include "sim/world/sim_time.h"

namespace batchflow::world {

namespace {

// A job that waits for less than this share of its time is bounded by its GPUs.
constexpr double kWaitsLeast = 0.02;

std::string bottleneck(const output::JobResult& job) {
  if (std::max(job.stall_s, job.idle_s) <= kWaitsLeast * job.time_s) return "gpu";
  if (job.idle_s > job.stall_s) return "ranks";
  const output::Waits& waited = job.waited;
  const std::pair<double, const char*> causes[] = {{waited.storage_s, "storage"},
                                                   {waited.drive_s, "drive"},
                                                   {waited.network_s, "network"},
                                                   {waited.cores_s, "cores"},
                                                   {waited.preparation_s, "preparation"},
                                                   {waited.delivery_s, "delivery"},
                                                   {waited.other_s, "other"}};
  return std::max_element(std::begin(causes), std::end(causes),
                          [](const auto& a, const auto& b) { return a.first < b.first; })
      ->second;
}

}  // namespace

void Jobs::add_under_way(const Job& job, UnderWay& sum) const {
  if (job.state == Job::State::down || job.state == Job::State::restoring ||
      job.state == Job::State::preempted) {
    return;
  }
  std::uint64_t stalling = 0;
  for (const RankState& rank : job.ranks) {
    const Duration spent = kernel_.now() - rank.since;
    (rank.training ? sum.compute : rank.done ? sum.idle : sum.stall) += of_gpus(job, spent);
    if (!rank.training && !rank.done) ++stalling;
  }
  const std::uint64_t gpus = job.ranks.empty() ? 0 : job.gpus.size();
  sum.ranks += gpus;
  sum.stalling += gpus * stalling / std::max<std::size_t>(1, job.ranks.size());
}

// Of a job that stops in the middle: counts until now what its ranks are doing.
void Jobs::count_unfinished(Job& job) {
  const bool down = job.state == Job::State::down || job.state == Job::State::restoring;
  for (Rank number = 0; number < job.ranks.size(); ++number) {
    RankState& rank = job.ranks[number];
    const auto doing = rank.training ? Watch::Doing::compute
                       : rank.done   ? Watch::Doing::idle
                                     : Watch::Doing::stall;
    if (!down) watch_.spent(job.id, number, job.step, doing, rank.since, kernel_.now());
    const auto clock_of = [&](auto& clocks) -> TotalTime& {
      if (down) return clocks.down;
      return rank.training ? clocks.compute : rank.done ? clocks.idle : clocks.stall;
    };
    const Duration spent = kernel_.now() - rank.since;
    clock_of(job) += of_gpus(job, spent);
    // A first step that came to nothing is part of the time until the first is over.
    if (!down && rank.training && job.first_step == Instant{})
      job.first_compute += of_gpus(job, spent);
    clock_of(counters_) += of_gpus(job, spent);
    rank.since = kernel_.now();
  }
}

void Jobs::cut() {
  for (Job& job : jobs_) {
    if (job.state == Job::State::starting || job.state == Job::State::preempted) continue;
    count_unfinished(job);
  }
}

Jobs::UnderWay Jobs::under_way() const {
  UnderWay sum;
  for (const std::uint32_t index : running_) add_under_way(jobs_[index], sum);
  return sum;
}

std::vector<output::JobPoint> Jobs::points() const {
  std::vector<output::JobPoint> points;
  for (std::size_t i = 0; i < std::min(jobs_.size(), output::kJobsInSeries); ++i) {
    UnderWay now;
    add_under_way(jobs_[i], now);
    points.push_back({jobs_[i].result->samples, seconds(jobs_[i].stall + now.stall)});
  }
  return points;
}

std::vector<output::JobResult> Jobs::take_results() {
  for (const Job& job : jobs_) {
    output::JobResult& result = *job.result;
    if (job.state == Job::State::over || job.state == Job::State::running ||
        job.state == Job::State::down || job.state == Job::State::restoring ||
        job.state == Job::State::preempted) {
      const Instant end = job.state == Job::State::over ? job.ended : kernel_.now();
      const auto ranks = static_cast<double>(job.gpus.size());  // each has a GPU, in whatever ranks
      result.started_s = seconds(job.started);
      result.ended_s = seconds(end);
      result.time_s = seconds(end - job.started);
      result.compute_s = seconds(job.compute) / ranks;
      result.stall_s = seconds(job.stall) / ranks;
      result.idle_s = seconds(job.idle) / ranks;
      result.down_s = seconds(job.down) / ranks;
      if (job.first_batch != Instant{})
        result.first_batch_s = seconds(job.first_batch - job.started);
      if (job.first_step != Instant{}) result.first_step_s = seconds(job.first_step - job.started);
      if (result.time_s > 0) {
        result.samples_per_s = static_cast<double>(result.samples) / result.time_s;
      }
      const double after_first_s = result.time_s - result.first_step_s;
      if (job.first_step != Instant{} && after_first_s > 0) {
        result.au = (result.compute_s - seconds(job.first_compute) / ranks) / after_first_s;
      } else if (result.time_s > 0) {  // there is only one step
        result.au = result.compute_s / result.time_s;
      }
      result.waited = waits(watch_.waited(index_of(job)), static_cast<double>(job.nodes.size()));
      result.bottleneck = bottleneck(result);
    }
  }
  return std::move(results_);
}

}  // namespace batchflow::world
