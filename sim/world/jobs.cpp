#include "sim/world/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/order/replacement.h"
#include "sim/world/chance.h"
#include "sim/world/gpu_memory.h"
#include "sim/world/kernel.h"
#include "sim/world/live_sources.h"
#include "sim/world/reports.h"
#include "sim/world/watch.h"

namespace batchflow::world {

namespace {

std::string reason(const engine::Refuse& command) {
  switch (command.why) {
    case engine::Refusal::no_room:
      return fmt::format("it needs {} bytes of the cache and {} are free", command.needed,
                         command.available);
    case engine::Refusal::storage_failed:
      return "reads failed too often";
    case engine::Refusal::no_workers:
      return "preparation failed too often";
    case engine::Refusal::too_many_corrupt:
      if (command.needed > command.available)
        return fmt::format("{} corrupt samples, and {} are allowed", command.needed,
                           command.available);
      return fmt::format("{} corrupt samples, and none of {} tries found another for one of them",
                         command.needed, order::kReplacementAttemptsMost);
    case engine::Refusal::rank_lost:
      return "a lost rank did not come back";
    case engine::Refusal::wrong_order:
      return "its order cannot be served: a policy that chooses samples has no order for each node "
             "and shuffles no runs";
    default:
      return "its request makes no sense to the engine";
  }
}

}  // namespace

Jobs::Jobs(const Parts& parts)
    : world_(parts),
      jobs_(parts.scenario, parts.workload, parts.ids),
      clocks_(parts.kernel, parts.counters, parts.watch),
      checkpoints_(parts.tasks, parts.platform, parts.counters, parts.scenario),
      joins_(parts),
      schedule_(parts, jobs_, *this),
      training_(parts, jobs_, clocks_, checkpoints_, *this),
      validations_(parts, jobs_, schedule_, training_),
      losses_(parts, jobs_, clocks_, checkpoints_, schedule_, training_, joins_) {}

std::size_t Jobs::node_of(JobId id, Rank rank) const {
  return jobs_.at(id).nodes[rank].value;
}

// A rank that stands for several GPUs has its part of those on its node.
std::vector<std::size_t> Jobs::gpus_of(JobId id, Rank rank) const {
  const Job& job = jobs_.at(id);
  const NodeId node = job.nodes[rank];
  if (job.nodes.size() == job.gpus.size()) return {job.gpu_numbers[rank]};
  std::vector<std::size_t> gpus;
  for (std::size_t i = 0; i < job.gpus.size(); ++i)
    if (job.gpus[i] == node) gpus.push_back(job.gpu_numbers[i]);
  return gpus;
}

const Workload::Preparation& Jobs::preparation(JobId id) const {
  return *jobs_.at(id).preparation;
}

void Jobs::promised(std::span<const engine::Promise> promises) {
  checkpoints_.promised(promises, [this](JobId id) -> const Job& { return jobs_.at(id); });
  for (const engine::Promise& promise : promises) {
    if (promise.kind != engine::Promise::Kind::committed || promise.shown == 0) continue;
    Job& job = jobs_.at(promise.job);
    job.shown = promise.shown;
    for (const engine::KeptExemplar& one : promise.kept) {
      job.exemplars.resize(std::max<std::size_t>(job.exemplars.size(), one.index + 1));
      job.exemplars[one.index] = one.exemplar;
    }
  }
}

// --------------------------------------------------------------------- coming and going ----

void Jobs::begin() {
  for (std::uint32_t i = 0; i < jobs_.size(); ++i) {
    const input::JobModel& model = *jobs_[i].model;
    if (jobs_[i].is_validation()) continue;
    Duration later{0};
    if (model.arrives_spread.count() > 0) {
      Random chance = chance_of(world_.scenario.seed, Chance::arrival, i);
      later = scaled(model.arrives_spread, chance.unit());
    }
    jobs_[i].result->arrived_s = seconds(model.arrives + later);
    world_.kernel.at(std::max(model.arrives + later, model.not_before), [this, i] { arrive(i); });
  }
}

void Jobs::arrive(std::uint32_t index) {
  jobs_[index].state = Job::State::queued;
  schedule_.wait(index);
  schedule_.give_gpus();
}

void Jobs::has_gpus(std::uint32_t index) {
  Job& job = jobs_[index];
  if (job.state == Job::State::preempted) return losses_.resume(index);
  job.state = Job::State::starting;
  job.started = world_.kernel.now();
  job.ranks.assign(job.nodes.size(), {});
  // The first job on a dataset opens it, and others wait for that.
  const auto [opened, is_first] = opened_at_.try_emplace(job.model->dataset);
  const Instant asks = job.started + job.model->start_up;
  if (is_first) {
    const auto dataset = static_cast<std::size_t>(job.model->dataset);
    opened->second = asks + world_.scenario.datasets[dataset].opens;
  }
  const Duration begins = std::max(asks, opened->second) - job.started;
  if (begins.count() == 0) return join(index);
  world_.kernel.after(begins, [this, index, restarts = job.restarts] {
    if (jobs_[index].restarts == restarts) join(index);
  });
}

void Jobs::join(std::uint32_t index) {
  Job& job = jobs_[index];
  job.state = Job::State::joining;
  if (std::string problem = no_room_on_gpus(world_.scenario.cluster, job); !problem.empty()) {
    job.result->refusal = std::move(problem);
    // Not within the walk through the queue that gave it its GPUs.
    return world_.kernel.after(Duration(0), [this, index] { over(jobs_[index], "refused"); });
  }
  for (RankState& rank : job.ranks) {
    rank.since = world_.kernel.now();
    clocks_.add_idle(job, world_.kernel.now() - job.started);
  }
  joins_.joined(index, job);
  if (const Duration after = job.model->leaves_after; after.count() > 0)
    world_.kernel.after(after, [this, index] { leave(jobs_[index], "left"); });
}

void Jobs::admitted(const engine::Admit& command) {
  Job& job = jobs_.at(command.job);
  if (job.id != command.job) return;
  job.step = command.first_step;
  if (job.state == Job::State::joining) return training_.begin(job, command.credits);
  if (job.state == Job::State::restoring) losses_.restore(jobs_.index_of(job), command.credits);
}

void Jobs::refused(const engine::Refuse& command) {
  Job& job = jobs_.at(command.job);
  if (job.state == Job::State::over || job.id != command.job) return;
  job.result->refusal = reason(command);
  over(job, "refused");
}

void Jobs::delivered(const Delivered& batch) {
  Job& job = jobs_.at(batch.job);
  if (job.state == Job::State::over || job.state == Job::State::preempted) return;
  if (job.id != batch.job) return;
  if (job.state != Job::State::running || batch.step < job.step)
    return losses_.release(job, batch.rank, batch.step);
  training_.delivered(jobs_.index_of(job), batch);
}

void Jobs::trained_epoch(std::uint32_t index) {
  Job& job = jobs_[index];
  if (job.validation != Job::kNone && validations_.begin(index)) join(job.validation);
  // The engine knows no epochs of a list.
  if (job.model->order == Order::listed) job.result->epochs = job.epochs_trained;
  if (!job.is_validation()) return;
  ++job.holds;
  validations_.end(index);
}

void Jobs::epoch_ended(const engine::EpochEnded& command) {
  Job& job = jobs_.at(command.job);
  if (job.id != command.job) return;
  const std::uint64_t epochs = (command.epoch + 1) * job.preparation->epochs;
  job.result->epochs = std::max(job.result->epochs, epochs);
  if (epochs == job.model->epochs) leave(job, "done");
}

void Jobs::mixture_set(const engine::MixtureSet& command) {
  Job& job = jobs_.at(command.job);
  if (job.id == command.job) job.sources.set(command.parts);
}

void Jobs::leave(Job& job, const char* state) {
  if (job.state != Job::State::joining && job.state != Job::State::running &&
      job.state != Job::State::down && job.state != Job::State::restoring) {
    return;
  }
  world_.reports.fact(engine::JobLeft{job.id});
  over(job, state);
}

void Jobs::over(Job& job, const char* state) {
  clocks_.count_unfinished(job);
  job.state = Job::State::over;
  job.result->state = state;
  job.ended = last_end_ = world_.kernel.now();
  job.ranks.clear();
  ++over_;
  if (job.is_validation()) {
    validations_.end(jobs_.index_of(job));
    Job& trains = jobs_[static_cast<std::size_t>(job.model->validates_for)];
    if (!std::exchange(trains.lends_gpus, false)) return;
    schedule_.give_back(trains);
    return schedule_.give_gpus();
  }
  if (job.validation != Job::kNone) {
    Job& own = jobs_[job.validation];
    // The last validation has the GPUs until it is over.
    job.lends_gpus = own.state != Job::State::over && job.validates && job.result->state == "done";
    if (job.lends_gpus) return;
    leave(own, "left");
    if (own.state != Job::State::over) over(own, "left");
  }
  schedule_.give_back(job);
  schedule_.give_gpus();
}

// -------------------------------------------------------------------------------- results ----

void Jobs::cut() {
  for (Job& job : jobs_) {
    if (job.state == Job::State::starting || job.state == Job::State::preempted) continue;
    clocks_.count_unfinished(job);
  }
}

Jobs::UnderWay Jobs::under_way() const {
  UnderWay sum;
  for (const std::uint32_t index : schedule_.with_gpus()) clocks_.add_under_way(jobs_[index], sum);
  return sum;
}

std::vector<output::JobPoint> Jobs::points() const {
  std::vector<output::JobPoint> points;
  const auto most =
      static_cast<std::uint32_t>(std::min<std::size_t>(jobs_.size(), output::kJobsInSeries));
  for (std::uint32_t i = 0; i < most; ++i) {
    UnderWay now;
    clocks_.add_under_way(jobs_[i], now);
    points.push_back({jobs_[i].result->samples, seconds(jobs_[i].stall + now.stall)});
  }
  return points;
}

std::vector<output::JobResult> Jobs::take_results() {
  for (const Job& job : jobs_) {
    job.finish_result(world_.kernel.now(), waits(world_.watch.waited(jobs_.index_of(job)),
                                                 static_cast<double>(job.nodes.size())));
    job.result->mixture = job.sources.result(job.model->mixture);
    if (job.model->order != Order::live) continue;
    job.result->live = LiveSources::result(job.live);
    job.result->buffer = world_.live.window(*job.model, job.live, job.result->samples);
  }
  return jobs_.take_results();
}

}  // namespace batchflow::world
