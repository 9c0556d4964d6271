#include "sim/world/job_losses.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/world/chance.h"
#include "sim/world/counters.h"
#include "sim/world/kernel.h"
#include "sim/world/platform.h"
#include "sim/world/reports.h"
#include "sim/world/tasks.h"

namespace batchflow::world {

// ---------------------------------------------------------------------------- lost nodes ----

bool JobLosses::is_up(const Job& job) const {
  return std::none_of(down_.begin(), down_.end(),
                      [&](NodeId node) { return job.has_rank_on(node); });
}

void JobLosses::node_down(NodeId node) {
  down_.insert(node);
  schedule_.node_down(node);
  for (std::uint32_t i = 0; i < jobs_.size(); ++i) {
    Job& job = jobs_[i];
    if (job.state == Job::State::preempted || !job.has_rank_on(node)) continue;
    if (job.state == Job::State::joining || job.state == Job::State::running ||
        job.state == Job::State::restoring) {
      world_.scenario.after_loss == input::AfterLoss::moves ? move(i) : stop(job);
    }
    if (job.state == Job::State::starting) start_anew(i);
  }
  // Others may be lost at the same instant: no job is to get their GPUs.
  world_.kernel.after(Duration(0), [this] { schedule_.give_gpus(); });
}

// It has received nothing yet: it is the next to get GPUs.
void JobLosses::start_anew(std::uint32_t index) {
  Job& job = jobs_[index];
  job.state = Job::State::queued;
  ++job.restarts;
  job.ranks.clear();
  schedule_.give_back(job);
  schedule_.wait_first(index);
}

void JobLosses::node_up(NodeId node) {
  down_.erase(node);
  schedule_.node_up(node);
  for (std::uint32_t i = 0; i < jobs_.size(); ++i) {
    if (jobs_[i].state == Job::State::down && is_up(jobs_[i])) go_on(i);
  }
  schedule_.give_gpus();
}

void JobLosses::forget_ranks(Job& job, Instant now) {
  for (RankState& rank : job.ranks) {
    rank = {};
    rank.since = now;
  }
}

void JobLosses::stop(Job& job) {
  clocks_.count_unfinished(job);
  job.state = Job::State::down;
  ++job.restarts;
  training_.forget_step(job);
  checkpoints_.forget(job);
  for (Rank number = 0; number < job.ranks.size(); ++number) {
    const RankState& rank = job.ranks[number];
    if (rank.done) release(job, number, job.step);
    for (const Delivered& batch : rank.batches) release(job, number, batch.step);
  }
  forget_ranks(job, world_.kernel.now());
}

void JobLosses::go_on(std::uint32_t index) {
  Job& job = jobs_[index];
  clocks_.count_unfinished(job);
  ++job.result->restarts;
  if (checkpoints_.goes_back(job)) return go_back(index);
  join_again(index);
}

// From its last step. The engine knows no position of a list: to it, the job that has one is new.
void JobLosses::join_again(std::uint32_t index) {
  Job& job = jobs_[index];
  job.state = Job::State::joining;
  if (job.model->order != Order::listed) return joins_.resized(job);
  leave_engine(job);
  joins_.joined(index, job);
}

// The job joins anew, and its steps have other numbers then.
void JobLosses::leave_engine(Job& job) {
  world_.reports.fact(engine::JobLeft{job.id});
  jobs_.give_another_id(job);
  job.earlier_steps += job.step;
}

// To the last checkpoint.
void JobLosses::go_back(std::uint32_t index) {
  Job& job = jobs_[index];
  leave_engine(job);
  job.state = Job::State::restoring;
  job.repeats_until = std::max(job.repeats_until, job.steps_done);
  job.steps_done = job.epoch_began_at = job.checkpoint.steps;
  const auto& position = job.checkpoint.position;
  const bool is_mixed = position && position->fields().mixing;
  job.drawn = is_mixed ? job.preparation->stored(position->fields().mixing->drawn()) : 0;
  job.kept = 0;
  joins_.joined(index, job);
}

void JobLosses::restore(std::uint32_t index, std::uint32_t credits) {
  const auto restores = [this, index, restarts = jobs_[index].restarts] {
    return jobs_[index].restarts == restarts && jobs_[index].state == Job::State::restoring;
  };
  world_.kernel.after(jobs_[index].model->start_up, [this, index, credits, restores] {
    if (!restores()) return;
    Job& job = jobs_[index];
    const TaskId task = world_.tasks.begin([this, index, credits, restores] {
      if (!restores()) return;
      clocks_.count_unfinished(jobs_[index]);
      training_.begin(jobs_[index], credits);
    });
    const Bytes part = job.model->checkpoint.bytes / job.ring.size();
    for (const NodeId node : job.ring) {
      if (part == 0 || !job.checkpoint.position) break;
      world_.platform.read_store(
          task, node.value, {1, part},
          chance_of(world_.scenario.seed, Chance::restore, index, job.restarts, node.value));
      world_.counters.restored_bytes += part;
    }
    world_.tasks.go(task);
    job.restores = task;
  });
}

// What was on a lost node is gone with the node.
void JobLosses::release(const Job& job, Rank rank, std::uint64_t step) {
  if (down_.count(job.nodes[rank]) != 0) return;
  world_.reports.fact(engine::SlotReleased{job.id, rank, step});
}

// ----------------------------------------------------------------------------- lost GPUs ----

// A step that stands for many steps is kept as far as all ranks have come. Any other step is not
// kept, because it was not completed. Work that will be computed again was lost, and does not count
// as computed.
void JobLosses::keep_what_is_done(Job& job) {
  std::vector<double> done;
  for (const RankState& rank : job.ranks) {
    const double now = rank.training
                           ? seconds(world_.kernel.now() - rank.since) / seconds(rank.computes)
                       : rank.done ? 1
                                   : 0;
    done.push_back(job.kept + (1 - job.kept) * std::min(now, 1.));
  }
  const double before = job.kept;
  if (job.preparation->is_streamed && !done.empty())
    job.kept = *std::min_element(done.begin(), done.end());
  for (std::size_t rank = 0; rank < done.size(); ++rank) {
    const double again = done[rank] - std::max(job.kept, before);
    if (again <= 0) continue;
    const double of_all = again / std::max(1e-12, 1 - before);
    clocks_.lost(job, scaled(job.ranks[rank].computes, of_all));
  }
}

// The job goes on from its last completed step when it gets GPUs again.
void JobLosses::leave_gpus(Job& job) {
  job.attained = schedule_.attained(job);
  const bool repeats = job.moves && checkpoints_.goes_back(job);
  if (!repeats) keep_what_is_done(job);
  clocks_.count_unfinished(job);
  // Not lost: it goes on where it was.
  if (job.preparation->is_streamed && !repeats) job.samples_done = 0;
  training_.forget_step(job);
  for (Rank rank = 0; rank < job.ranks.size(); ++rank) {
    // The engine has heard of the ranks on a lost node with that node.
    if (down_.count(job.nodes[rank]) == 0) world_.reports.fact(engine::RankLost{job.id, rank});
  }
  job.state = Job::State::preempted;
  ++job.restarts;
  forget_ranks(job, world_.kernel.now());
  schedule_.give_back(job);
}

void JobLosses::preempt(std::uint32_t index) {
  leave_gpus(jobs_[index]);
  ++jobs_[index].result->preemptions;
  schedule_.wait(index);
}

// A job that has lost a node is the next to get GPUs.
void JobLosses::move(std::uint32_t index) {
  Job& job = jobs_[index];
  job.moves = true;
  leave_gpus(job);
  checkpoints_.forget(job);
  schedule_.wait_first(index);
}

void JobLosses::resume(std::uint32_t index) {
  Job& job = jobs_[index];
  // It has as many GPUs as before, or others; they may be divided into ranks in another way.
  const Instant now = world_.kernel.now();
  const Duration away = now - job.ranks.front().since;
  job.down += TotalTime(away) * static_cast<double>(job.gpus.size());
  job.ranks.resize(job.nodes.size());
  forget_ranks(job, now);
  if (std::exchange(job.moves, false)) {
    ++job.result->restarts;
    if (checkpoints_.goes_back(job)) return go_back(index);
  }
  join_again(index);
}

}  // namespace batchflow::world
