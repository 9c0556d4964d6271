// What jobs do beside waiting for batches and computing on them: their own loaders, the exchange of
// gradients, validation, and what fits the memory of their GPUs. Checkpoints: job_checkpoints.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/world/jobs.h"

namespace batchflow::world {

// ------------------------------------------------------------------------------- loaders ----

// True: the rank's loader is not ready with the batch yet, and calls train_rank when it is.
bool Jobs::loads(std::uint32_t index, Rank number) {
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
  const TaskId task = tasks_.begin([this, index, number, restarts = job.restarts] {
    if (jobs_[index].restarts != restarts) return;
    RankState& ready = jobs_[index].ranks[number];
    ready.loading = false;
    ready.loaded = true;
    train_rank(index, number);
  });
  platform_.work(task, job.nodes[number].value, takes);
  tasks_.go(task);
  return true;
}

// ----------------------------------------------------------------------------- gradients ----

// Each node sends to the next one in the ring: of n nodes, (n-1)/n of the bytes to add them up, and
// as many to hand out the sums.
void Jobs::begin_exchange(std::uint32_t index, Duration compute) {
  const input::ExchangeModel& exchange = jobs_[index].model->exchange;
  kernel_.after(scaled(compute, exchange.after), [this, index, restarts = jobs_[index].restarts] {
    const Job& job = jobs_[index];
    if (job.restarts != restarts || job.state != Job::State::running) return;
    const TaskId task = tasks_.begin([this, index, restarts] {
      Job& now = jobs_[index];
      if (now.restarts != restarts || now.state != Job::State::running) return;
      now.is_exchanged = true;
      if (now.ranks_done == now.ranks.size()) step_done(index);
    });
    const std::size_t nodes = job.ring.size();
    const Bytes bytes =
        job.model->exchange.bytes * job.preparation->epochs * 2 * (nodes - 1) / nodes;
    for (std::size_t i = 0; i < nodes; ++i) {
      platform_.copy(task, job.ring[i].value, job.ring[(i + 1) % nodes].value, bytes);
      counters_.network_bytes += bytes;
    }
    tasks_.go(task);
  });
}

// The time that ranks were held they were idle.
void Jobs::hold_over(std::uint32_t index) {
  Job& job = jobs_[index];
  if (job.holds == 0 || --job.holds > 0 || job.state != Job::State::running) return;
  for (Rank number = 0; number < job.ranks.size(); ++number) {
    clocks_.idled(job, number);
    train_rank(index, number);
  }
}

// Of a step that will not be completed.
void Jobs::forget_traffic(Job& job) const {
  job.ranks_computing = 0;
  job.is_exchanged = job.epoch_over = false;
  if (!job.is_validation()) job.holds = job.validates ? 1 : 0;
}

// ---------------------------------------------------------------------------- validation ----

// The validation of a job has the job's GPUs, and a sequence of its own; like a loader that stays
// it may have the first batches of its next epoch already when it goes on.
void Jobs::begin_validation(std::uint32_t index) {
  Job& job = jobs_[index];
  Job& own = jobs_[job.validation];
  if (own.state == Job::State::over || job.epochs_trained % own.model->validates_every != 0) return;
  job.validates = true;
  ++job.holds;
  if (own.state == Job::State::away) {
    assign_gpus(own, job.gpus);
    own.started = kernel_.now();
    own.result->arrived_s = seconds(own.started);
    own.ranks.assign(own.nodes.size(), {});
    for (RankState& rank : own.ranks) rank.since = kernel_.now();
    return join(job.validation);
  }
  for (RankState& rank : own.ranks) {
    own.idle += own.of_gpus(kernel_.now() - rank.since);  // the trained job's time, in sums
    rank.since = kernel_.now();
  }
  own.holds = 0;
  for (Rank number = 0; number < own.ranks.size(); ++number) train_rank(job.validation, number);
}

// `index` is the validation's.
void Jobs::end_validation(std::uint32_t index) {
  const auto trains = static_cast<std::uint32_t>(jobs_[index].model->validates_for);
  if (std::exchange(jobs_[trains].validates, false)) hold_over(trains);
}

// ----------------------------------------------------------------------------- GPU memory ----

namespace {

Bytes least_gpu_memory(const input::ClusterModel& cluster, const std::vector<NodeId>& nodes) {
  Bytes least = UINT64_MAX;
  for (const NodeId node : nodes) {
    const Bytes memory = cluster.nodes[node.value].gpu_memory;
    if (memory > 0) least = std::min(least, memory);
  }
  return least;
}

}  // namespace

std::uint32_t Jobs::batches_on_gpu(const Job& job) const {
  const Bytes memory = least_gpu_memory(scenario_.cluster, job.gpus);
  if (memory == UINT64_MAX) return UINT32_MAX;
  if (memory <= job.model->gpu_bytes) return 0;
  const Bytes batch = std::max<Bytes>(1, item_batch(job) * job.preparation->moved_bytes);
  return static_cast<std::uint32_t>(
      std::min<Bytes>(UINT32_MAX, (memory - job.model->gpu_bytes) / batch));
}

std::string Jobs::no_room_on_gpus(const Job& job) const {
  if (batches_on_gpu(job) > 0) return "";
  return fmt::format("a batch of {} bytes does not fit a GPU of {} beside the {} of training",
                     item_batch(job) * job.preparation->moved_bytes,
                     least_gpu_memory(scenario_.cluster, job.gpus), job.model->gpu_bytes);
}

}  // namespace batchflow::world
