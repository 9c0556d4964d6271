#include "sim/world/job_training.h"

#include <algorithm>
#include <deque>
#include <span>
#include <utility>

#include "sim/world/chance.h"
#include "sim/world/counters.h"
#include "sim/world/gpu_memory.h"
#include "sim/world/kernel.h"
#include "sim/world/live_sources.h"
#include "sim/world/platform.h"
#include "sim/world/reports.h"
#include "sim/world/tasks.h"
#include "sim/world/watch.h"

namespace batchflow::world {

namespace {

bool has_exchange(const Job& job) {
  return job.model->exchange.bytes > 0 && job.ring.size() > 1;
}

}  // namespace

JobTraining::JobTraining(const Parts& parts, JobTable& jobs, JobClocks& clocks,
                         JobCheckpoints& checkpoints, Listener& listener)
    : world_(parts),
      jobs_(jobs),
      clocks_(clocks),
      checkpoints_(checkpoints),
      listener_(listener),
      scores_(parts.scenario, parts.reports),
      lists_(parts) {
  for (const Job& job : jobs_)
    work_all_ += job.preparation->is_streamed ? job.model->steps : batches_of(job);
}

std::uint64_t JobTraining::batches_of(const Job& job) const {
  const input::JobModel& model = *job.model;
  const std::uint64_t samples =
      world_.scenario.datasets[static_cast<std::size_t>(model.dataset)].samples;
  const std::uint64_t step = std::uint64_t{model.batch - model.rehearsed} * model.ranks;
  const std::uint64_t epochs = (samples + step - 1) / step * model.epochs;
  if (model.steps == 0) return epochs * model.ranks;
  return model.steps * model.ranks * job.preparation->epochs;
}

double JobTraining::progress() const {
  // A job that fills its steps may take more of them than its source has records for.
  return work_all_ == 0
             ? 1
             : std::min(1., static_cast<double>(work_done_) / static_cast<double>(work_all_));
}

void JobTraining::begin(Job& job, std::uint32_t credits) {
  job.state = Job::State::running;
  const std::uint32_t wanted = std::min(credits, batches_on_gpu(world_.scenario.cluster, job));
  for (Rank rank = 0; rank < job.ranks.size(); ++rank) {
    job.ranks[rank].asked = job.steps_done;
    want(job, rank, wanted);
  }
}

void JobTraining::want(Job& job, Rank number, std::uint32_t batches) {
  if (job.model->order != Order::listed)
    return world_.reports.fact(engine::BatchWanted{job.id, number, batches});
  for (; batches > 0; --batches) lists_.ask(job, number, job.ranks[number].asked++);
}

void JobTraining::delivered(std::uint32_t index, Delivered batch) {
  Job& job = jobs_[index];
  if (job.model->order == Order::listed) lists_.complete(job, batch);
  if (job.first_batch == Instant{}) job.first_batch = world_.kernel.now();
  // A small batch may overtake a large one on its way to the GPU; a rank trains in order.
  const Rank rank = batch.rank;
  std::deque<Delivered>& batches = job.ranks[rank].batches;
  const auto after = std::find_if(batches.begin(), batches.end(),
                                  [&](const Delivered& other) { return other.step > batch.step; });
  batches.insert(after, std::move(batch));
  train(index, rank);
}

// The rank trains on its batch of the present step, if it is free and has it.
void JobTraining::train(std::uint32_t index, Rank number) {
  Job& job = jobs_[index];
  RankState& rank = job.ranks[number];
  if (job.holds > 0 || rank.training || rank.done || rank.batches.empty()) return;
  if (rank.batches.front().step != job.step || loads(index, number)) return;
  rank.training = true;
  const input::JobModel& model = *job.model;
  const std::uint64_t step = job.earlier_steps + job.step;
  const input::Scenario& scenario = world_.scenario;
  Random chance = chance_of(scenario.seed, Chance::job_step, index, number, step);
  // A batch stands for one of each epoch.
  const auto epochs = static_cast<double>(job.preparation->epochs);
  Random common = chance_of(scenario.seed, Chance::job_steps, index, step);
  const input::Spread varies{model.steps_vary, input::Spread::Shape::normal};
  const input::NodeModel& node = scenario.cluster.nodes[job.nodes[number].value];
  const double factor = (1 - job.kept) * epochs * model.step_spread.draw(chance, epochs) *
                        varies.draw(common, epochs) / node.gpu_speed;
  const Duration compute = scaled(model.step, factor) + node.overhead.step;
  // A block that stands for a stream comes bit by bit, and is worked on as it comes. A rank that
  // seemed to wait for all of it has computed meanwhile, and is done with it when its last bit is
  // there.
  const Instant now = world_.kernel.now();
  Duration waited = now - rank.since;
  const Duration computed = job.preparation->is_streamed ? std::min(waited, compute) : Duration(0);
  waited -= computed;
  const Instant trains_since = now - computed;
  world_.watch.spent(job.id, number, job.step, Watch::Doing::stall, rank.since, trains_since);
  rank.since = trains_since;
  clocks_.add_stall(job, waited);
  if (model.order == Order::live) has_records(job, rank.batches.front());
  world_.kernel.after(compute - computed, [this, index, number, restarts = job.restarts] {
    if (jobs_[index].restarts == restarts) trained(index, number);
  });
  rank.computes = compute;
  if (++job.ranks_computing == job.ranks.size() && has_exchange(job))
    begin_exchange(index, compute);
}

// Records stand first in a batch, and what fills it last.
void JobTraining::has_records(Job& job, const Delivered& batch) {
  const std::span<const SampleId> all = batch.drawn;
  world_.live.trained_on(world_.workload.dataset(*job.model), all.first(batch.samples),
                         all.last(batch.rehearsed), job.live);
}

// True: the rank's loader is not ready with the batch yet, and the rank trains when it is.
bool JobTraining::loads(std::uint32_t index, Rank number) {
  Job& job = jobs_[index];
  RankState& rank = job.ranks[number];
  if (rank.loaded || rank.loading) return rank.loading;
  const Delivered& batch = rank.batches.front();
  const auto samples = static_cast<double>(batch.samples + batch.fillers + batch.rehearsed);
  const Duration takes =
      scaled(job.model->loader_step, static_cast<double>(job.preparation->epochs)) +
      duration_of(job.model->loader_sample_ns * samples * 1e-9);
  if (takes.count() == 0) return false;
  rank.loading = true;
  const TaskId task = world_.tasks.begin([this, index, number, restarts = job.restarts] {
    if (jobs_[index].restarts != restarts) return;
    RankState& ready = jobs_[index].ranks[number];
    ready.loading = false;
    ready.loaded = true;
    train(index, number);
  });
  world_.platform.work(task, job.nodes[number].value, takes);
  world_.tasks.go(task);
  return true;
}

// Each node sends to the next one in the ring: of n nodes, (n-1)/n of the bytes to add them up, and
// as many to hand out the sums.
void JobTraining::begin_exchange(std::uint32_t index, Duration compute) {
  const Duration after = scaled(compute, jobs_[index].model->exchange.after);
  world_.kernel.after(after, [this, index, restarts = jobs_[index].restarts] {
    const Job& job = jobs_[index];
    if (job.restarts != restarts || job.state != Job::State::running) return;
    const TaskId task = world_.tasks.begin([this, index, restarts] {
      Job& now = jobs_[index];
      if (now.restarts != restarts || now.state != Job::State::running) return;
      now.is_exchanged = true;
      if (now.ranks_done == now.ranks.size()) step_done(index);
    });
    const std::size_t nodes = job.ring.size();
    const Bytes bytes =
        job.model->exchange.bytes * job.preparation->epochs * 2 * (nodes - 1) / nodes;
    for (std::size_t i = 0; i < nodes; ++i) {
      world_.platform.copy(task, job.ring[i].value, job.ring[(i + 1) % nodes].value, bytes);
      world_.counters.network_bytes += bytes;
    }
    world_.tasks.go(task);
  });
}

void JobTraining::trained(std::uint32_t index, Rank number) {
  Job& job = jobs_[index];
  if (job.state != Job::State::running) return;
  RankState& rank = job.ranks[number];
  const Delivered batch = rank.batches.front();
  rank.batches.pop_front();
  rank.training = rank.loaded = false;
  rank.done = true;
  job.epoch_over = batch.last_of_epoch;
  const Instant now = world_.kernel.now();
  world_.watch.spent(job.id, number, batch.step, Watch::Doing::compute, rank.since, now);
  rank.since = now;
  clocks_.add_compute(job, rank.computes);
  job.samples_done += batch.samples;
  job.fillers_done += batch.fillers;
  job.rehearsed_done += batch.rehearsed;
  scores_.report(*job.model, batch);
  if (!job.model->mixture.policy.empty() && job.steps_done >= job.repeats_until)
    learn_from(job, batch);
  if (++job.ranks_done == job.ranks.size() && (job.is_exchanged || !has_exchange(job)))
    step_done(index);
}

// What fills a batch, and what is rehearsed, stands last.
void JobTraining::learn_from(Job& job, const Delivered& batch) {
  const std::uint64_t all = batch.samples + batch.fillers + batch.rehearsed;
  const std::span<const SampleId> items = batch.drawn;
  job.sources.trained_on(job.model->mixture,
                         world_.workload.data(world_.workload.dataset(*job.model)),
                         items.first(items.size() * batch.samples / all));
}

// The job asks for other weights of its sources whenever it has drawn so many samples more.
void JobTraining::change_mixture(Job& job, std::uint64_t drawn) {
  const input::MixtureModel& mixture = job.model->mixture;
  const std::uint64_t changes = (job.drawn + drawn) / mixture.change_every;
  const bool is_due = changes != job.drawn / mixture.change_every;
  job.drawn += drawn;
  if (!is_due) return;
  world_.reports.fact(engine::MixtureChanged{
      job.id, 0, world_.reports.keep(order::Mixture::parts_of(mixture.weights(changes)))});
}

// All ranks go on together: a step is over, and its batch is used up, when all ranks have exchanged
// what they learned from it.
void JobTraining::step_done(std::uint32_t index) {
  Job& job = jobs_[index];
  const bool is_new = job.steps_done >= job.repeats_until;
  count_step(job);
  const std::uint64_t samples = job.samples_done;
  job.kept = 0;
  job.samples_done = job.fillers_done = job.rehearsed_done = 0;
  job.ranks_done = job.ranks_computing = 0;
  job.is_exchanged = false;
  const std::uint64_t step = job.step++;
  if (++job.steps_done == job.model->steps) return listener_.trained_all(index);
  if (job.model->mixture.change_every > 0) change_mixture(job, samples);
  if (!job.model->mixture.policy.empty())
    world_.reports.fact(engine::LossesReported{
        job.id, world_.reports.keep(job.sources.losses(job.model->mixture))});
  if (job.epoch_over) job.epoch_began_at = job.steps_done;
  const std::uint64_t every = job.model->checkpoint.every;
  if (every > 0 && job.steps_done % every == 0)
    checkpoints_.begin(job, [this, index] { end_hold(index); });
  // The end of an epoch that is trained again has been reported before.
  if (std::exchange(job.epoch_over, false) && is_new) {
    ++job.epochs_trained;
    listener_.trained_epoch(index);
  }
  for (Rank number = 0; number < job.ranks.size(); ++number) {
    RankState& rank = job.ranks[number];
    // The engine takes 0 for a time that was not measured.
    const Duration measured = std::max(rank.computes, Duration(1));
    world_.reports.fact(engine::BatchConsumed{job.id, number, step, measured});
    world_.reports.fact(engine::SlotReleased{job.id, number, step});
    want(job, number, 1);
    clocks_.idled(job, number);
    rank.done = false;
    train(index, number);
  }
  if (job.model->order == Order::listed && job.steps_done == lists_.steps_of(job))
    listener_.trained_all(index);
}

void JobTraining::count_step(Job& job) {
  if (job.first_step == Instant{}) job.first_step = world_.kernel.now();
  if (const std::uint64_t all = job.model->samples_in_all; all > 0) {
    const auto until = [&](std::uint64_t steps) -> std::uint64_t {
      return static_cast<std::uint64_t>(static_cast<unsigned __int128>(all) * steps /
                                        job.model->steps);
    };
    job.samples_done = until(job.steps_done + 1) - until(job.steps_done);
  }
  if (job.steps_done < job.repeats_until) {
    world_.counters.samples_repeated += job.samples_done;
    job.result->repeated_samples += job.samples_done;
    return;
  }
  const std::uint64_t batches = job.gpus.size() * job.preparation->epochs;
  world_.counters.batches_trained += batches;
  work_done_ += job.preparation->is_streamed ? 1 : batches;
  world_.counters.samples_trained += job.samples_done;
  job.result->batches += batches;
  job.result->samples += job.samples_done;
  job.result->fillers += job.fillers_done;
  job.result->rehearsed += job.rehearsed_done;
}

// The time that ranks were held they were idle.
void JobTraining::end_hold(std::uint32_t index) {
  Job& job = jobs_[index];
  if (job.holds == 0 || --job.holds > 0 || job.state != Job::State::running) return;
  for (Rank number = 0; number < job.ranks.size(); ++number) {
    clocks_.idled(job, number);
    train(index, number);
  }
}

void JobTraining::go_on(std::uint32_t index) {
  Job& job = jobs_[index];
  job.holds = 0;
  for (Rank number = 0; number < job.ranks.size(); ++number) train(index, number);
}

void JobTraining::forget_step(Job& job) {
  const std::uint64_t lost = std::exchange(job.samples_done, 0);
  job.fillers_done = 0;
  job.rehearsed_done = 0;
  job.ranks_done = 0;
  job.ranks_computing = 0;
  job.is_exchanged = job.epoch_over = false;
  if (!job.is_validation()) job.holds = job.validates ? 1 : 0;
  job.result->lost_samples += lost;
  world_.counters.samples_lost += lost;
}

}  // namespace batchflow::world
