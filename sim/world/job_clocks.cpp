#include "sim/world/job_clocks.h"

#include <algorithm>

namespace batchflow::world {

void JobClocks::add(Job& job, TotalTime Job::*of_job, TotalTime Counters::*of_all,
                    Duration of_one_rank) {
  job.*of_job += job.of_gpus(of_one_rank);
  counters_.*of_all += job.of_gpus(of_one_rank);
}

void JobClocks::idled(Job& job, Rank number) {
  RankState& rank = job.ranks[number];
  watch_.spent(job.id, number, job.step, Watch::Doing::idle, rank.since, kernel_.now());
  add_idle(job, kernel_.now() - rank.since);
  rank.since = kernel_.now();
}

void JobClocks::add_compute(Job& job, Duration spent) {
  add(job, &Job::compute, &Counters::compute, spent);
  if (job.first_step == Instant{}) job.first_compute += job.of_gpus(spent);
}

void JobClocks::lost(Job& job, Duration computed) {
  const TotalTime lost = job.of_gpus(computed);
  job.compute -= lost;
  counters_.compute -= lost;
  job.idle += lost;
  counters_.idle += lost;
}

void JobClocks::add_under_way(const Job& job, UnderWay& sum) const {
  if (job.state == Job::State::down || job.state == Job::State::restoring ||
      job.state == Job::State::preempted) {
    return;
  }
  std::uint64_t stalling = 0;
  for (const RankState& rank : job.ranks) {
    const Duration spent = kernel_.now() - rank.since;
    (rank.training ? sum.compute : rank.done ? sum.idle : sum.stall) += job.of_gpus(spent);
    if (!rank.training && !rank.done) ++stalling;
  }
  const std::uint64_t gpus = job.ranks.empty() ? 0 : job.gpus.size();
  sum.ranks += gpus;
  sum.stalling += gpus * stalling / std::max<std::size_t>(1, job.ranks.size());
}

void JobClocks::count_unfinished(Job& job) {
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
    clock_of(job) += job.of_gpus(spent);
    // A first step that came to nothing is part of the time until the first is over.
    if (!down && rank.training && job.first_step == Instant{})
      job.first_compute += job.of_gpus(spent);
    clock_of(counters_) += job.of_gpus(spent);
    rank.since = kernel_.now();
  }
}

}  // namespace batchflow::world
