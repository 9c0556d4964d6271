#include "sim/world/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "sim/world/chance.h"
#include "sim/world/sim_time.h"

namespace batchflow::sim {

namespace {

std::uint64_t hash_of(const std::string& name) {
  std::uint64_t value = 0;
  for (const char c : name) value = hash(value, static_cast<unsigned char>(c));
  return value;
}

std::string reason(const Refuse& order) {
  switch (order.why) {
    case Refusal::no_room:
      return fmt::format("it needs {} bytes of the cache and {} are free", order.needed,
                         order.available);
    case Refusal::storage_failed:
      return "reads failed too often";
    case Refusal::no_workers:
      return "preparation failed too often";
    case Refusal::too_many_corrupt:
      return fmt::format("{} corrupt samples, and {} are allowed", order.needed, order.available);
    case Refusal::rank_lost:
      return "a lost rank did not come back";
    default:
      return "its request makes no sense to the engine";
  }
}

// A job that waits for less than this share of its time is bounded by its GPUs.
constexpr double kWaitsLeast = 0.02;

std::string bottleneck(const JobResult& job) {
  if (std::max(job.stall_s, job.idle_s) <= kWaitsLeast * job.time_s) return "gpu";
  if (job.idle_s > job.stall_s) return "ranks";
  const Waits& waited = job.waited;
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

Jobs::Jobs(Kernel& kernel, const Scenario& scenario, const Workload& workload, Reports& reports,
           Counters& counters, Watch& watch)
    : kernel_(kernel),
      scenario_(scenario),
      workload_(workload),
      reports_(reports),
      counters_(counters),
      watch_(watch),
      gpus_(scenario.cluster),
      jobs_(scenario.jobs.size()),
      queue_(scenario.scheduler) {
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    Job& job = jobs_[i];
    job.model = &scenario.jobs[i];
    job.preparation = &workload.preparation(*job.model);
    job.result.name = job.model->name;
    job.result.user = job.model->user;
    job.result.dataset = scenario.datasets[static_cast<std::size_t>(job.model->dataset)].name;
    job.result.ranks = job.model->ranks;
    job.result.arrived_s = seconds(job.model->arrives);
    batches_all_ += batches_of(*job.model);
  }
}

std::uint64_t Jobs::batches_of(const JobModel& model) const {
  const std::uint64_t samples = scenario_.datasets[static_cast<std::size_t>(model.dataset)].samples;
  const std::uint64_t step = std::uint64_t{model.batch} * model.ranks;
  const std::uint64_t epochs = (samples + step - 1) / step * model.epochs;
  if (model.steps == 0) return epochs * model.ranks;
  return model.steps * model.ranks * workload_.preparation(model).epochs;
}

double Jobs::progress() const {
  return batches_all_ == 0
             ? 1
             : static_cast<double>(counters_.batches_trained) / static_cast<double>(batches_all_);
}

std::size_t Jobs::node_of(JobId id, Rank rank) const {
  return job(id).nodes[rank].value;
}

const Workload::Preparation& Jobs::preparation(JobId id) const {
  return *job(id).preparation;
}

// --------------------------------------------------------------------- coming and going ----

void Jobs::begin() {
  for (std::uint32_t i = 0; i < jobs_.size(); ++i) {
    kernel_.at(std::max(jobs_[i].model->arrives, jobs_[i].model->not_before),
               [this, i] { arrive(i); });
  }
}

void Jobs::arrive(std::uint32_t index) {
  jobs_[index].state = Job::State::queued;
  queue_.add(index, *jobs_[index].model, jobs_[index].attained);
  start_queued();
}

void Jobs::start_queued() {
  queue_.each([this](std::uint32_t index) {
    auto nodes = gpus_.take(*jobs_[index].model);
    if (!nodes && make_room_for(index)) nodes = gpus_.take(*jobs_[index].model);
    if (nodes) {
      jobs_[index].nodes = std::move(*nodes);
      start(index);
      return JobQueue::Answer::took;
    }
    const bool stop = queue_.is_strict() || gpus_.all_taken();
    return stop && !preempts() ? JobQueue::Answer::stop : JobQueue::Answer::waits;
  });
}

void Jobs::start(std::uint32_t index) {
  Job& job = jobs_[index];
  running_.insert(index);
  job.has_gpus_since = kernel_.now();
  if (job.state == Job::State::preempted) return resume(index);
  job.state = Job::State::starting;
  job.started = kernel_.now();
  job.ranks.assign(job.nodes.size(), {});
  if (job.model->start_up.count() == 0) return join(index);
  kernel_.after(job.model->start_up, [this, index, restarts = job.restarts] {
    if (jobs_[index].restarts == restarts) join(index);
  });
}

void Jobs::join(std::uint32_t index) {
  Job& job = jobs_[index];
  const JobModel& model = *job.model;
  job.state = Job::State::joining;
  for (RankState& rank : job.ranks) {
    rank.since = kernel_.now();
    job.idle += model.start_up;
    counters_.idle += model.start_up;
  }
  JobJoined event;
  event.job = JobId(index);
  event.user = hash_of(model.user);
  event.dataset = workload_.dataset(model);
  event.pipeline = workload_.pipeline(model);
  event.order = model.order;
  event.has_shuffle_seed = model.has_shuffle_seed;
  event.shuffle_seed = model.shuffle_seed;
  event.batch_samples = scenario_.item_batch(model);
  event.drop_last = model.drop_last;
  event.epochs = model.epochs / static_cast<std::uint32_t>(job.preparation->epochs);
  event.credits = model.credits;
  event.weight = model.weight;
  event.ranks = reports_.keep(job.nodes);
  reports_.fact(event);
  if (model.leaves_after.count() > 0) {
    kernel_.after(model.leaves_after, [this, index] { leave(index, "left"); });
  }
}

void Jobs::admitted(const Admit& order) {
  Job& mine = job(order.job);
  if (mine.state != Job::State::joining) return;  // it has left meanwhile
  mine.state = Job::State::running;
  mine.step = order.first_step;
  for (Rank rank = 0; rank < mine.ranks.size(); ++rank) {
    reports_.fact(BatchWanted{order.job, rank, order.credits});
  }
}

void Jobs::refused(const Refuse& order) {
  Job& mine = job(order.job);
  if (mine.state == Job::State::over) return;
  mine.result.refusal = reason(order);
  over(mine, "refused");
}

void Jobs::epoch_ended(const EpochEnded& order) {
  Job& mine = job(order.job);
  mine.result.epochs += mine.preparation->epochs;
  if (mine.result.epochs == mine.model->epochs) leave(order.job.value, "done");
}

void Jobs::leave(std::uint32_t index, const char* state) {
  Job& job = jobs_[index];
  if (job.state != Job::State::joining && job.state != Job::State::running &&
      job.state != Job::State::down) {
    return;
  }
  reports_.fact(JobLeft{JobId(index)});
  over(job, state);
}

// Of a job that stops in the middle: what its ranks are at counts until now.
void Jobs::count_unfinished(Job& job) {
  const JobId id(static_cast<std::uint32_t>(&job - jobs_.data()));
  const bool down = job.state == Job::State::down;
  for (Rank number = 0; number < job.ranks.size(); ++number) {
    RankState& rank = job.ranks[number];
    const auto doing = rank.training ? Watch::Doing::compute
                       : rank.done   ? Watch::Doing::idle
                                     : Watch::Doing::stall;
    if (!down) watch_.spent(id, number, job.step, doing, rank.since, kernel_.now());
    const auto clock_of = [&](auto& clocks) -> Duration& {
      if (down) return clocks.down;
      return rank.training ? clocks.compute : rank.done ? clocks.idle : clocks.stall;
    };
    const Duration spent = kernel_.now() - rank.since;
    clock_of(job) += spent;
    clock_of(counters_) += spent;
    rank.since = kernel_.now();
  }
}

void Jobs::cut() {
  for (Job& job : jobs_) {
    if (job.state == Job::State::starting || job.state == Job::State::preempted) continue;
    count_unfinished(job);
  }
}

void Jobs::over(Job& job, const char* state) {
  count_unfinished(job);
  job.state = Job::State::over;
  job.result.state = state;
  job.ended = last_end_ = kernel_.now();
  job.ranks.clear();
  ++over_;
  running_.erase(static_cast<std::uint32_t>(&job - jobs_.data()));
  gpus_.give_back(job.nodes);
  start_queued();
}

// ----------------------------------------------------------------------------- preemption ----

Duration Jobs::attained(const Job& job) const {
  return job.attained +
         (kernel_.now() - job.has_gpus_since) * static_cast<std::int64_t>(job.nodes.size());
}

// Jobs that have had much leave their GPUs to one that has not, who got them last first.
bool Jobs::make_room_for(std::uint32_t index) {
  if (!preempts() || JobQueue::has_had_much(jobs_[index].attained)) return false;
  std::vector<std::uint32_t> victims;
  for (const std::uint32_t one : running_) {
    const Job& job = jobs_[one];
    if (job.state == Job::State::running && JobQueue::has_had_much(attained(job))) {
      victims.push_back(one);
    }
  }
  std::sort(victims.begin(), victims.end(), [this](std::uint32_t a, std::uint32_t b) {
    return std::pair(jobs_[b].has_gpus_since, b) < std::pair(jobs_[a].has_gpus_since, a);
  });
  const std::uint64_t wanted = jobs_[index].model->ranks;
  std::uint64_t free = gpus_.free();
  std::size_t leave = 0;
  for (; leave < victims.size() && free < wanted; ++leave)
    free += jobs_[victims[leave]].nodes.size();
  if (free < wanted) return false;
  for (std::size_t i = 0; i < leave; ++i) preempt(victims[i]);
  return true;
}

// It goes on from its last completed step when it gets GPUs again.
void Jobs::preempt(std::uint32_t index) {
  Job& job = jobs_[index];
  job.attained = attained(job);
  count_unfinished(job);
  forget_step(job);
  for (Rank rank = 0; rank < job.ranks.size(); ++rank) reports_.fact(RankLost{JobId(index), rank});
  job.state = Job::State::preempted;
  ++job.restarts;
  ++job.result.preemptions;
  for (RankState& rank : job.ranks) {
    rank = {};
    rank.since = kernel_.now();
  }
  running_.erase(index);
  gpus_.give_back(job.nodes);
  queue_.add(index, *job.model, job.attained);
}

void Jobs::resume(std::uint32_t index) {
  Job& job = jobs_[index];
  for (RankState& rank : job.ranks) {
    const Duration away = kernel_.now() - rank.since;
    job.down += away;
    rank.since = kernel_.now();
  }
  job.state = Job::State::joining;
  reports_.fact(
      JobResized{JobId(index), scenario_.item_batch(*job.model), reports_.keep(job.nodes)});
}

// ------------------------------------------------------------------------------- training ----

void Jobs::delivered(const Delivered& batch) {
  Job& mine = job(batch.job);
  if (mine.state == Job::State::over || mine.state == Job::State::preempted) return;
  if (mine.state != Job::State::running || batch.step < mine.step) {
    return let_go(batch.job, batch.rank, batch.step);
  }
  if (mine.first_batch == Instant{}) mine.first_batch = kernel_.now();
  // A small batch may overtake a large one on its way to the GPU; a rank trains in order.
  std::deque<Delivered>& batches = mine.ranks[batch.rank].batches;
  const auto after = std::find_if(batches.begin(), batches.end(),
                                  [&](const Delivered& other) { return other.step > batch.step; });
  batches.insert(after, batch);
  train_rank(batch.job.value, batch.rank);
}

void Jobs::train_rank(std::uint32_t index, Rank number) {
  Job& job = jobs_[index];
  RankState& rank = job.ranks[number];
  if (rank.training || rank.done || rank.batches.empty()) return;
  if (rank.batches.front().step != job.step) return;
  rank.training = true;
  watch_.spent(JobId(index), number, job.step, Watch::Doing::stall, rank.since, kernel_.now());
  const Duration waited = kernel_.now() - rank.since;
  rank.since = kernel_.now();
  job.stall += waited;
  counters_.stall += waited;
  const JobModel& model = *job.model;
  Random chance = chance_of(scenario_.seed, Chance::job_step, index, number, job.step);
  // A batch stands for one of each epoch.
  const auto epochs = static_cast<double>(job.preparation->epochs);
  const double factor = epochs * model.step_spread.draw(chance, epochs) /
                        scenario_.cluster.nodes[job.nodes[number].value].gpu_speed;
  const Duration compute = scaled(model.step, factor);
  kernel_.after(compute, [this, index, number, restarts = job.restarts] {
    if (jobs_[index].restarts == restarts) trained(index, number);
  });
  rank.computes = compute;
}

void Jobs::trained(std::uint32_t index, Rank number) {
  Job& job = jobs_[index];
  if (job.state != Job::State::running) return;
  RankState& rank = job.ranks[number];
  const Delivered batch = rank.batches.front();
  rank.batches.pop_front();
  rank.training = false;
  rank.done = true;
  watch_.spent(JobId(index), number, batch.step, Watch::Doing::compute, rank.since, kernel_.now());
  rank.since = kernel_.now();
  job.compute += rank.computes;
  counters_.compute += rank.computes;
  if (job.first_step == Instant{}) job.first_compute += rank.computes;
  job.samples_done += batch.samples;
  job.fillers_done += batch.fillers;
  if (++job.ranks_done == job.ranks.size()) step_done(index);
}

// All ranks go on together: a step is over, and its batch had, when all have exchanged what they
// learned from it.
void Jobs::step_done(std::uint32_t index) {
  Job& job = jobs_[index];
  if (job.first_step == Instant{}) job.first_step = kernel_.now();
  const std::uint64_t batches = job.ranks.size() * job.preparation->epochs;
  counters_.batches_trained += batches;
  counters_.samples_trained += job.samples_done;
  job.result.batches += batches;
  job.result.samples += std::exchange(job.samples_done, 0);
  job.result.fillers += std::exchange(job.fillers_done, 0);
  job.ranks_done = 0;
  const std::uint64_t step = job.step++;
  if (job.step == job.model->steps) return leave(index, "done");
  for (Rank number = 0; number < job.ranks.size(); ++number) {
    RankState& rank = job.ranks[number];
    reports_.fact(BatchConsumed{JobId(index), number, step, rank.computes});
    reports_.fact(SlotReleased{JobId(index), number, step});
    reports_.fact(BatchWanted{JobId(index), number, 1});
    watch_.spent(JobId(index), number, job.step, Watch::Doing::idle, rank.since, kernel_.now());
    const Duration waited = kernel_.now() - rank.since;
    job.idle += waited;
    counters_.idle += waited;
    rank.since = kernel_.now();
    rank.done = false;
    train_rank(index, number);
  }
}

// --------------------------------------------------------------------------- lost nodes ----

bool Jobs::has_rank_on(const Job& job, NodeId node) const {
  return std::find(job.nodes.begin(), job.nodes.end(), node) != job.nodes.end();
}

bool Jobs::all_up(const Job& job) const {
  return std::none_of(down_.begin(), down_.end(),
                      [&](NodeId node) { return has_rank_on(job, node); });
}

void Jobs::node_down(NodeId node) {
  down_.insert(node);
  gpus_.down(node);
  for (std::uint32_t i = 0; i < jobs_.size(); ++i) {
    const Job& job = jobs_[i];
    if (job.state == Job::State::preempted || !has_rank_on(job, node)) continue;
    if (job.state == Job::State::joining || job.state == Job::State::running) stop(i);
    if (job.state == Job::State::starting) start_anew(i);
  }
  start_queued();
}

// It had nothing yet: it is the next to get GPUs.
void Jobs::start_anew(std::uint32_t index) {
  Job& job = jobs_[index];
  job.state = Job::State::queued;
  ++job.restarts;
  job.ranks.clear();
  gpus_.give_back(job.nodes);
  queue_.add_first(index);
}

void Jobs::node_up(NodeId node) {
  down_.erase(node);
  gpus_.up(node);
  for (std::uint32_t i = 0; i < jobs_.size(); ++i) {
    if (jobs_[i].state == Job::State::down && all_up(jobs_[i])) go_on(i);
  }
  start_queued();
}

void Jobs::forget_step(Job& job) {
  const std::uint64_t lost = std::exchange(job.samples_done, 0);
  job.fillers_done = 0;
  job.ranks_done = 0;
  job.result.lost_samples += lost;
  counters_.samples_lost += lost;
}

// A step is completed by all ranks or by none.
void Jobs::stop(std::uint32_t index) {
  Job& job = jobs_[index];
  count_unfinished(job);
  job.state = Job::State::down;
  ++job.restarts;
  forget_step(job);
  for (Rank number = 0; number < job.ranks.size(); ++number) {
    RankState& rank = job.ranks[number];
    if (rank.done) let_go(JobId(index), number, job.step);
    for (const Delivered& batch : rank.batches) let_go(batch.job, number, batch.step);
    rank = {};
    rank.since = kernel_.now();
  }
}

void Jobs::go_on(std::uint32_t index) {
  Job& job = jobs_[index];
  count_unfinished(job);
  job.state = Job::State::joining;
  ++job.result.restarts;
  reports_.fact(
      JobResized{JobId(index), scenario_.item_batch(*job.model), reports_.keep(job.nodes)});
}

// Of a step that will not be completed. What was on a lost node is gone with it.
void Jobs::let_go(JobId id, Rank rank, std::uint64_t step) {
  if (down_.count(job(id).nodes[rank]) != 0) return;
  reports_.fact(SlotReleased{id, rank, step});
}

// -------------------------------------------------------------------------------- results ----

void Jobs::add_under_way(const Job& job, UnderWay& sum) const {
  if (job.state == Job::State::down || job.state == Job::State::preempted) return;
  for (const RankState& rank : job.ranks) {
    const Duration spent = kernel_.now() - rank.since;
    (rank.training ? sum.compute : rank.done ? sum.idle : sum.stall) += spent;
    ++sum.ranks;
    sum.stalling += !rank.training && !rank.done;
  }
}

Jobs::UnderWay Jobs::under_way() const {
  UnderWay sum;
  for (const Job& job : jobs_) add_under_way(job, sum);
  return sum;
}

std::vector<JobPoint> Jobs::points() const {
  std::vector<JobPoint> points;
  for (std::size_t i = 0; i < std::min(jobs_.size(), kJobsInSeries); ++i) {
    UnderWay now;
    add_under_way(jobs_[i], now);
    points.push_back({jobs_[i].result.samples, seconds(jobs_[i].stall + now.stall)});
  }
  return points;
}

std::vector<JobResult> Jobs::results() const {
  std::vector<JobResult> results;
  for (const Job& job : jobs_) {
    JobResult result = job.result;
    if (job.state == Job::State::over || job.state == Job::State::running ||
        job.state == Job::State::down || job.state == Job::State::preempted) {
      const Instant end = job.state == Job::State::over ? job.ended : kernel_.now();
      const auto ranks = static_cast<double>(job.nodes.size());
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
      }
      const JobId id(static_cast<std::uint32_t>(&job - jobs_.data()));
      result.waited = waits(watch_.waited(id), ranks);
      result.bottleneck = bottleneck(result);
    }
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace batchflow::sim
