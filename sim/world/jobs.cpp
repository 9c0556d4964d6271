#include "sim/world/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "core/order/permutation.h"
#include "core/order/replacement.h"
#include "sim/world/chance.h"
#include "sim/world/sim_time.h"

namespace batchflow::world {

namespace {

std::uint64_t hash_of(const std::string& name) {
  std::uint64_t value = 0;
  for (const char c : name) value = hash(value, static_cast<unsigned char>(c));
  return value;
}

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
    : kernel_(parts.kernel),
      tasks_(parts.tasks),
      platform_(parts.platform),
      scenario_(parts.scenario),
      workload_(parts.workload),
      reports_(parts.reports),
      counters_(parts.counters),
      watch_(parts.watch),
      ids_(parts.ids),
      clocks_(kernel_, counters_, watch_),
      checkpoints_(tasks_, platform_, counters_, scenario_),
      scores_(scenario_, reports_),
      gpus_(scenario_.cluster),
      jobs_(scenario_.jobs.size()),
      results_(scenario_.jobs.size()),
      queue_(scenario_.scheduler) {
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    Job& job = jobs_[i];
    job.id = JobId(static_cast<std::uint32_t>(i));
    job.model = &scenario_.jobs[i];
    job.preparation = &workload_.preparation(*job.model);
    job.result = &results_[i];
    job.result->name = job.model->name;
    job.result->user = job.model->user;
    job.result->dataset = scenario_.datasets[static_cast<std::size_t>(job.model->dataset)].name;
    job.result->ranks = job.model->ranks;
    if (job.is_validation())
      jobs_[static_cast<std::size_t>(job.model->validates_for)].validation =
          static_cast<std::uint32_t>(i);
    work_all_ += job.preparation->is_streamed ? job.model->steps : batches_of(*job.model);
  }
}

std::uint64_t Jobs::batches_of(const input::JobModel& model) const {
  const std::uint64_t samples = scenario_.datasets[static_cast<std::size_t>(model.dataset)].samples;
  const std::uint64_t step = std::uint64_t{model.batch - model.rehearsed} * model.ranks;
  const std::uint64_t epochs = (samples + step - 1) / step * model.epochs;
  if (model.steps == 0) return epochs * model.ranks;
  return model.steps * model.ranks * workload_.preparation(model).epochs;
}

double Jobs::progress() const {
  return work_all_ == 0 ? 1 : static_cast<double>(work_done_) / static_cast<double>(work_all_);
}

std::size_t Jobs::node_of(JobId id, Rank rank) const {
  return job(id).nodes[rank].value;
}

const Workload::Preparation& Jobs::preparation(JobId id) const {
  return *job(id).preparation;
}

void Jobs::promised(std::span<const engine::Promise> promises) {
  checkpoints_.promised(promises, [this](JobId id) -> const Job& { return job(id); });
}

// --------------------------------------------------------------------- coming and going ----

void Jobs::begin() {
  for (std::uint32_t i = 0; i < jobs_.size(); ++i) {
    const input::JobModel& model = *jobs_[i].model;
    if (jobs_[i].is_validation()) continue;
    Duration later{0};
    if (model.arrives_spread.count() > 0) {
      Random chance = chance_of(scenario_.seed, Chance::arrival, i);
      later = scaled(model.arrives_spread, chance.unit());
    }
    jobs_[i].result->arrived_s = seconds(model.arrives + later);
    kernel_.at(std::max(model.arrives + later, model.not_before), [this, i] { arrive(i); });
  }
}

void Jobs::arrive(std::uint32_t index) {
  jobs_[index].state = Job::State::queued;
  wait_for_gpus(index);
  start_queued();
}

void Jobs::wait_for_gpus(std::uint32_t index) {
  const Job& job = jobs_[index];
  const auto epochs = static_cast<double>(job.preparation->epochs);
  queue_.add(index, *job.model, scaled(job.model->work(), epochs), job.attained);
}

void Jobs::start_queued() {
  queue_.each([this](std::uint32_t index) {
    auto nodes = gpus_.take(*jobs_[index].model);
    if (!nodes && make_room_for(index)) nodes = gpus_.take(*jobs_[index].model);
    if (nodes) {
      assign_gpus(jobs_[index], std::move(*nodes));
      start(index);
      return JobQueue::Answer::took;
    }
    const bool stop = queue_.is_strict() || gpus_.all_taken();
    return stop && !preempts() ? JobQueue::Answer::stop : JobQueue::Answer::waits;
  });
}

// Where blocks stand for streams of them, GPUs that move on together anyway are one rank. There are
// as many ranks as a step has blocks, on nodes of their own as far as there are so many.
void Jobs::assign_gpus(Job& job, std::vector<NodeId> gpus) const {
  job.gpus = std::move(gpus);
  job.nodes = job.gpus;
  job.ring = job.gpus;
  std::sort(job.ring.begin(), job.ring.end());
  job.ring.erase(std::unique(job.ring.begin(), job.ring.end()), job.ring.end());
  if (!job.preparation->is_streamed) return;
  std::map<NodeId, std::uint32_t> on;
  for (const NodeId node : job.gpus) ++on[node];
  std::vector<std::pair<std::uint32_t, NodeId>> nodes;
  for (const auto& [node, count] : on) nodes.emplace_back(count, node);
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  const std::uint32_t blocks =
      scenario_.item_batch(*job.model) /
      scenario_.pipelines[static_cast<std::size_t>(job.model->pipeline)].items_per_block;
  nodes.resize(std::bit_floor(std::min<std::size_t>(nodes.size(), std::max(1u, blocks))));
  job.nodes.clear();
  for (const auto& [count, node] : nodes) job.nodes.push_back(node);
}

std::uint32_t Jobs::item_batch(const Job& job) const {
  const std::uint32_t batch = scenario_.item_batch(*job.model);
  if (!job.preparation->is_streamed) return batch;
  return batch / static_cast<std::uint32_t>(job.nodes.size());
}

void Jobs::start(std::uint32_t index) {
  Job& job = jobs_[index];
  running_.insert(index);
  job.has_gpus_since = kernel_.now();
  if (preempts()) watch_for_much(index);
  if (job.state == Job::State::preempted) return resume(index);
  job.state = Job::State::starting;
  job.started = kernel_.now();
  job.ranks.assign(job.nodes.size(), {});
  // The first job on a dataset opens it, and others wait for that.
  const auto [opened, is_first] = opened_at_.try_emplace(job.model->dataset);
  const Instant asks = kernel_.now() + job.model->start_up;
  if (is_first)
    opened->second = asks + scenario_.datasets[static_cast<std::size_t>(job.model->dataset)].opens;
  const Duration begins = std::max(asks, opened->second) - kernel_.now();
  if (begins.count() == 0) return join(index);
  kernel_.after(begins, [this, index, restarts = job.restarts] {
    if (jobs_[index].restarts == restarts) join(index);
  });
}

void Jobs::join(std::uint32_t index) {
  Job& job = jobs_[index];
  const input::JobModel& model = *job.model;
  job.state = Job::State::joining;
  if (std::string problem = no_room_on_gpus(job); !problem.empty()) {
    job.result->refusal = std::move(problem);
    // Not within the walk through the queue that gave it its GPUs.
    return kernel_.after(Duration(0), [this, index] { over(jobs_[index], "refused"); });
  }
  for (RankState& rank : job.ranks) {
    rank.since = kernel_.now();
    clocks_.add_idle(job, kernel_.now() - job.started);
  }
  report_join(index);
  if (model.leaves_after.count() > 0) {
    kernel_.after(model.leaves_after, [this, index] { leave(index, "left"); });
  }
}

void Jobs::report_join(std::uint32_t index) {
  const Job& job = jobs_[index];
  const input::JobModel& model = *job.model;
  engine::JobJoined event;
  event.job = job.id;
  event.user = hash_of(model.user);
  event.dataset = workload_.dataset(model);
  event.pipeline = workload_.pipeline(model);
  event.order = model.order;
  event.has_shuffle_seed = model.has_shuffle_seed;
  event.shuffle_seed = model.shuffle_seed;
  event.batch_samples = item_batch(job);
  event.drop_last = model.drop_last;
  event.epochs = model.epochs / static_cast<std::uint32_t>(job.preparation->epochs);
  event.steps = model.steps > 0 ? model.steps - job.steps_done : 0;
  event.credits = model.credits;
  event.weight = model.weight;
  event.latency_target = model.latency_target;
  event.node_local = model.node_local;
  event.runs = model.runs;
  event.rehearsed = scenario_.in_items(model, model.rehearsed);
  event.ranks = reports_.keep(job.nodes);
  if (job.checkpoint.position) event.position = &*job.checkpoint.position;
  reports_.fact(event);
  report_exemplars(index);
}

// Draws samples at random, none twice; the draw depends on the job alone.
void Jobs::report_exemplars(std::uint32_t index) {
  const input::JobModel& model = *jobs_[index].model;
  if (model.exemplars == 0) return;
  const input::DatasetModel& dataset = scenario_.datasets[static_cast<std::size_t>(model.dataset)];
  const order::Permutation chosen(chance_of(scenario_.seed, Chance::exemplars, index).draw(),
                                  scenario_.items(dataset));
  const std::uint32_t count = scenario_.in_items(model, model.exemplars);
  for (std::uint32_t first = 0; first < count; first += engine::kExemplarsAtOnce) {
    std::vector<SampleId> some;
    const auto end = std::min<std::uint32_t>(count, first + engine::kExemplarsAtOnce);
    for (std::uint32_t i = first; i < end; ++i) some.emplace_back(chosen(i));
    reports_.fact(engine::ExemplarsReported{jobs_[index].id, first == 0, first,
                                            reports_.keep(std::move(some)), end < count});
  }
}

void Jobs::admitted(const engine::Admit& command) {
  Job& mine = job(command.job);
  if (mine.id != command.job) return;
  mine.step = command.first_step;
  if (mine.state == Job::State::joining) return train(index_of(mine), command.credits);
  if (mine.state == Job::State::restoring) restore(index_of(mine), command.credits);
}

void Jobs::train(std::uint32_t index, std::uint32_t credits) {
  Job& job = jobs_[index];
  job.state = Job::State::running;
  for (Rank rank = 0; rank < job.ranks.size(); ++rank) {
    reports_.fact(engine::BatchWanted{job.id, rank, std::min(credits, batches_on_gpu(job))});
  }
}

void Jobs::refused(const engine::Refuse& command) {
  Job& mine = job(command.job);
  if (mine.state == Job::State::over || mine.id != command.job) return;
  mine.result->refusal = reason(command);
  over(mine, "refused");
}

void Jobs::epoch_ended(const engine::EpochEnded& command) {
  Job& mine = job(command.job);
  if (mine.id != command.job) return;
  const std::uint64_t epochs = (command.epoch + 1) * mine.preparation->epochs;
  mine.result->epochs = std::max(mine.result->epochs, epochs);
  if (epochs == mine.model->epochs) leave(index_of(mine), "done");
}

void Jobs::leave(std::uint32_t index, const char* state) {
  Job& job = jobs_[index];
  if (job.state != Job::State::joining && job.state != Job::State::running &&
      job.state != Job::State::down && job.state != Job::State::restoring) {
    return;
  }
  reports_.fact(engine::JobLeft{job.id});
  over(job, state);
}

void Jobs::over(Job& job, const char* state) {
  clocks_.count_unfinished(job);
  job.state = Job::State::over;
  job.result->state = state;
  job.ended = last_end_ = kernel_.now();
  job.ranks.clear();
  ++over_;
  running_.erase(index_of(job));
  if (job.is_validation()) end_validation(index_of(job));
  if (job.validation != Job::kNone && jobs_[job.validation].state != Job::State::over) {
    // The last validation has the GPUs until it is over.
    job.lends_gpus = job.validates && job.result->state == "done";
    if (job.lends_gpus) return;
    leave(job.validation, "left");
    if (jobs_[job.validation].state != Job::State::over) over(jobs_[job.validation], "left");
  }
  if (job.is_validation()) {
    Job& trains = jobs_[static_cast<std::size_t>(job.model->validates_for)];
    if (!std::exchange(trains.lends_gpus, false)) return;
    gpus_.give_back(trains.gpus);
  } else {
    gpus_.give_back(job.gpus);
  }
  start_queued();
}

// ------------------------------------------------------------------------------- training ----

void Jobs::delivered(const Delivered& batch) {
  Job& mine = job(batch.job);
  if (mine.state == Job::State::over || mine.state == Job::State::preempted) return;
  if (mine.id != batch.job) return;
  if (mine.state != Job::State::running || batch.step < mine.step) {
    return release(mine, batch.rank, batch.step);
  }
  if (mine.first_batch == Instant{}) mine.first_batch = kernel_.now();
  // A small batch may overtake a large one on its way to the GPU; a rank trains in order.
  std::deque<Delivered>& batches = mine.ranks[batch.rank].batches;
  const auto after = std::find_if(batches.begin(), batches.end(),
                                  [&](const Delivered& other) { return other.step > batch.step; });
  batches.insert(after, batch);
  train_rank(index_of(mine), batch.rank);
}

void Jobs::train_rank(std::uint32_t index, Rank number) {
  Job& job = jobs_[index];
  RankState& rank = job.ranks[number];
  if (job.holds > 0 || rank.training || rank.done || rank.batches.empty()) return;
  if (rank.batches.front().step != job.step || loads(index, number)) return;
  rank.training = true;
  const input::JobModel& model = *job.model;
  const std::uint64_t step = job.earlier_steps + job.step;
  Random chance = chance_of(scenario_.seed, Chance::job_step, index, number, step);
  // A batch stands for one of each epoch.
  const auto epochs = static_cast<double>(job.preparation->epochs);
  Random common = chance_of(scenario_.seed, Chance::job_steps, index, step);
  const input::Spread varies{model.steps_vary, input::Spread::Shape::normal};
  const input::NodeModel& node = scenario_.cluster.nodes[job.nodes[number].value];
  const double factor = (1 - job.kept) * epochs * model.step_spread.draw(chance, epochs) *
                        varies.draw(common, epochs) / node.gpu_speed;
  const Duration compute = scaled(model.step, factor) + node.overhead.step;
  // A block that stands for a stream comes bit by bit, and is worked on as it comes. A rank that
  // seemed to wait for all of it has computed meanwhile, and is done with it when its last bit is
  // there.
  Duration waited = kernel_.now() - rank.since;
  const Duration computed = job.preparation->is_streamed ? std::min(waited, compute) : Duration(0);
  waited -= computed;
  const Instant trains_since = kernel_.now() - computed;
  watch_.spent(job.id, number, job.step, Watch::Doing::stall, rank.since, trains_since);
  rank.since = trains_since;
  clocks_.add_stall(job, waited);
  kernel_.after(compute - computed, [this, index, number, restarts = job.restarts] {
    if (jobs_[index].restarts == restarts) trained(index, number);
  });
  rank.computes = compute;
  if (++job.ranks_computing == job.ranks.size() && has_exchange(job))
    begin_exchange(index, compute);
}

void Jobs::trained(std::uint32_t index, Rank number) {
  Job& job = jobs_[index];
  if (job.state != Job::State::running) return;
  RankState& rank = job.ranks[number];
  const Delivered batch = rank.batches.front();
  rank.batches.pop_front();
  rank.training = rank.loaded = false;
  rank.done = true;
  job.epoch_over = batch.last_of_epoch;
  watch_.spent(job.id, number, batch.step, Watch::Doing::compute, rank.since, kernel_.now());
  rank.since = kernel_.now();
  clocks_.add_compute(job, rank.computes);
  job.samples_done += batch.samples;
  job.fillers_done += batch.fillers;
  job.rehearsed_done += batch.rehearsed;
  scores_.report(*job.model, batch);
  if (++job.ranks_done == job.ranks.size() && (job.is_exchanged || !has_exchange(job)))
    step_done(index);
}

// All ranks go on together: a step is over, and its batch is used up, when all ranks have exchanged
// what they learned from it.
void Jobs::step_done(std::uint32_t index) {
  Job& job = jobs_[index];
  if (job.first_step == Instant{}) job.first_step = kernel_.now();
  const std::uint64_t batches = job.gpus.size() * job.preparation->epochs;
  if (const std::uint64_t all = job.model->samples_in_all; all > 0) {
    const auto until = [&](std::uint64_t steps) -> std::uint64_t {
      return static_cast<std::uint64_t>(static_cast<unsigned __int128>(all) * steps /
                                        job.model->steps);
    };
    job.samples_done = until(job.steps_done + 1) - until(job.steps_done);
  }
  const bool is_new = job.steps_done >= job.repeats_until;
  if (is_new) {
    counters_.batches_trained += batches;
    work_done_ += weight_of(job, batches);
    counters_.samples_trained += job.samples_done;
    job.result->batches += batches;
    job.result->samples += job.samples_done;
    job.result->fillers += job.fillers_done;
    job.result->rehearsed += job.rehearsed_done;
  } else {
    counters_.samples_repeated += job.samples_done;
    job.result->repeated_samples += job.samples_done;
  }
  job.kept = 0;
  job.samples_done = job.fillers_done = job.rehearsed_done = 0;
  job.ranks_done = job.ranks_computing = 0;
  job.is_exchanged = false;
  const std::uint64_t step = job.step++;
  if (++job.steps_done == job.model->steps) return leave(index, "done");
  if (job.epoch_over) job.epoch_began_at = job.steps_done;
  const std::uint64_t every = job.model->checkpoint.every;
  if (every > 0 && job.steps_done % every == 0)
    checkpoints_.begin(job, [this, index] { hold_over(index); });
  // What an epoch that is trained again ends with has been.
  if (std::exchange(job.epoch_over, false) && is_new) {
    ++job.epochs_trained;
    if (job.validation != Job::kNone) begin_validation(index);
    if (job.is_validation()) {
      ++job.holds;
      end_validation(index);
    }
  }
  for (Rank number = 0; number < job.ranks.size(); ++number) {
    RankState& rank = job.ranks[number];
    // The engine takes 0 for a time that was not measured.
    const Duration measured = std::max(rank.computes, Duration(1));
    reports_.fact(engine::BatchConsumed{job.id, number, step, measured});
    reports_.fact(engine::SlotReleased{job.id, number, step});
    reports_.fact(engine::BatchWanted{job.id, number, 1});
    clocks_.idled(job, number);
    rank.done = false;
    train_rank(index, number);
  }
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
  for (const std::uint32_t index : running_) clocks_.add_under_way(jobs_[index], sum);
  return sum;
}

std::vector<output::JobPoint> Jobs::points() const {
  std::vector<output::JobPoint> points;
  for (std::size_t i = 0; i < std::min(jobs_.size(), output::kJobsInSeries); ++i) {
    UnderWay now;
    clocks_.add_under_way(jobs_[i], now);
    points.push_back({jobs_[i].result->samples, seconds(jobs_[i].stall + now.stall)});
  }
  return points;
}

std::vector<output::JobResult> Jobs::take_results() {
  for (const Job& job : jobs_)
    job.finish_result(kernel_.now(),
                      waits(watch_.waited(index_of(job)), static_cast<double>(job.nodes.size())));
  return std::move(results_);
}

}  // namespace batchflow::world
