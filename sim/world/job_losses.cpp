// Jobs that lose what they run on. A job that loses nodes goes on when all of them are there again:
// from its last step, or from its last checkpoint. Or it goes on at once, on other nodes.
// A job may also lose its GPUs to jobs that had less GPU time.
#include <algorithm>
#include <utility>

#include "sim/world/chance.h"
#include "sim/world/jobs.h"

namespace batchflow::world {

bool Jobs::all_up(const Job& job) const {
  return std::none_of(down_.begin(), down_.end(),
                      [&](NodeId node) { return job.has_rank_on(node); });
}

void Jobs::node_down(NodeId node) {
  down_.insert(node);
  gpus_.node_down(node);
  for (std::uint32_t i = 0; i < jobs_.size(); ++i) {
    const Job& job = jobs_[i];
    if (job.state == Job::State::preempted || !job.has_rank_on(node)) continue;
    if (job.state == Job::State::joining || job.state == Job::State::running ||
        job.state == Job::State::restoring) {
      scenario_.after_loss == input::AfterLoss::moves ? move(i) : stop(i);
    }
    if (job.state == Job::State::starting) start_anew(i);
  }
  // Others may be lost at the same instant: no job is to get their GPUs.
  kernel_.after(Duration(0), [this] { start_queued(); });
}

// It has received nothing yet: it is the next to get GPUs.
void Jobs::start_anew(std::uint32_t index) {
  Job& job = jobs_[index];
  job.state = Job::State::queued;
  ++job.restarts;
  job.ranks.clear();
  gpus_.give_back(job.gpus);
  running_.erase(index);
  queue_.add_first(index);
}

void Jobs::node_up(NodeId node) {
  down_.erase(node);
  gpus_.node_up(node);
  for (std::uint32_t i = 0; i < jobs_.size(); ++i) {
    if (jobs_[i].state == Job::State::down && all_up(jobs_[i])) go_on(i);
  }
  start_queued();
}

// A step is completed by all ranks or by none.
void Jobs::forget_step(Job& job) {
  const std::uint64_t lost = std::exchange(job.samples_done, 0);
  job.fillers_done = 0;
  job.rehearsed_done = 0;
  job.ranks_done = 0;
  forget_traffic(job);
  job.result->lost_samples += lost;
  counters_.samples_lost += lost;
}

void Jobs::stop(std::uint32_t index) {
  Job& job = jobs_[index];
  clocks_.count_unfinished(job);
  job.state = Job::State::down;
  ++job.restarts;
  forget_step(job);
  checkpoints_.forget(job);
  for (Rank number = 0; number < job.ranks.size(); ++number) {
    RankState& rank = job.ranks[number];
    if (rank.done) release(job, number, job.step);
    for (const Delivered& batch : rank.batches) release(job, number, batch.step);
    rank = {};
    rank.since = kernel_.now();
  }
}

void Jobs::go_on(std::uint32_t index) {
  Job& job = jobs_[index];
  clocks_.count_unfinished(job);
  ++job.result->restarts;
  if (checkpoints_.goes_back(job)) return go_back(index);
  job.state = Job::State::joining;
  reports_.fact(engine::JobResized{job.id, item_batch(job), reports_.keep(job.nodes)});
}

// To the last checkpoint. The engine takes an id once, and so the job gets another.
void Jobs::go_back(std::uint32_t index) {
  Job& job = jobs_[index];
  reports_.fact(engine::JobLeft{job.id});
  job.id = ids_.another(index);
  job.state = Job::State::restoring;
  job.earlier_steps += job.step;
  job.repeats_until = std::max(job.repeats_until, job.steps_done);
  job.steps_done = job.epoch_began_at = job.checkpoint.steps;
  job.kept = 0;
  report_join(index);
}

// Its processes start, and each node reads its part of the checkpoint, if there is one.
void Jobs::restore(std::uint32_t index, std::uint32_t credits) {
  const auto restores = [this, index, restarts = jobs_[index].restarts] {
    return jobs_[index].restarts == restarts && jobs_[index].state == Job::State::restoring;
  };
  kernel_.after(jobs_[index].model->start_up, [this, index, credits, restores] {
    if (!restores()) return;
    Job& job = jobs_[index];
    const TaskId task = tasks_.begin([this, index, credits, restores] {
      if (!restores()) return;
      clocks_.count_unfinished(jobs_[index]);
      train(index, credits);
    });
    const Bytes part = job.model->checkpoint.bytes / job.ring.size();
    for (const NodeId node : job.ring) {
      if (part == 0 || !job.checkpoint.position) break;
      platform_.read_store(
          task, node.value, {1, part},
          chance_of(scenario_.seed, Chance::restore, index, job.restarts, node.value));
      counters_.restored_bytes += part;
    }
    tasks_.go(task);
    job.restores = task;
  });
}

// Of a step that will not be completed. What was on a lost node is gone with the node.
void Jobs::release(const Job& job, Rank rank, std::uint64_t step) {
  if (down_.count(job.nodes[rank]) != 0) return;
  reports_.fact(engine::SlotReleased{job.id, rank, step});
}

// ----------------------------------------------------------------------------- preemption ----

TotalTime Jobs::attained(const Job& job) const {
  return job.attained +
         TotalTime(kernel_.now() - job.has_gpus_since) * static_cast<double>(job.gpus.size());
}

// When a job has had much GPU time, others may get its GPUs, though no job comes or goes just then.
void Jobs::watch_for_much(std::uint32_t index) {
  const Job& job = jobs_[index];
  const Duration left = JobQueue::until_much(job.attained, job.gpus.size());
  if (left <= Duration(0)) return;
  kernel_.after(left, [this, index, restarts = job.restarts] {
    const Job& now = jobs_[index];
    if (now.restarts == restarts && now.state == Job::State::running) start_queued();
  });
}

// Jobs that have had much leave their GPUs to a job that has not; the job that got its GPUs last
// leaves first.
bool Jobs::make_room_for(std::uint32_t index) {
  if (!preempts() || JobQueue::has_had_much(jobs_[index].attained)) return false;
  std::vector<std::uint32_t> victims;
  for (const std::uint32_t running : running_) {
    const Job& job = jobs_[running];
    if (job.state == Job::State::running && JobQueue::has_had_much(attained(job))) {
      victims.push_back(running);
    }
  }
  std::sort(victims.begin(), victims.end(), [this](std::uint32_t a, std::uint32_t b) {
    return std::pair(jobs_[b].has_gpus_since, b) < std::pair(jobs_[a].has_gpus_since, a);
  });
  const std::uint64_t wanted = jobs_[index].model->ranks;
  std::uint64_t free = gpus_.free();
  std::size_t leave = 0;
  for (; leave < victims.size() && free < wanted; ++leave)
    free += jobs_[victims[leave]].gpus.size();
  if (free < wanted) return false;
  for (std::size_t i = 0; i < leave; ++i) preempt(victims[i]);
  return true;
}

// A step that stands for many steps is kept as far as all ranks have come. Any other step is not
// kept, because it was not completed. Work that will be computed again was lost, and does not count
// as computed.
void Jobs::keep_what_is_done(Job& job) {
  std::vector<double> done;
  for (const RankState& rank : job.ranks) {
    const double now = rank.training ? seconds(kernel_.now() - rank.since) / seconds(rank.computes)
                       : rank.done   ? 1
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
void Jobs::leave_gpus(Job& job) {
  job.attained = attained(job);
  const bool repeats = job.moves && checkpoints_.goes_back(job);
  if (!repeats) keep_what_is_done(job);
  clocks_.count_unfinished(job);
  // Not lost: it goes on where it was.
  if (job.preparation->is_streamed && !repeats) job.samples_done = 0;
  forget_step(job);
  for (Rank rank = 0; rank < job.ranks.size(); ++rank) {
    // Of the ranks on a lost node the engine has heard with the node.
    if (down_.count(job.nodes[rank]) == 0) reports_.fact(engine::RankLost{job.id, rank});
  }
  job.state = Job::State::preempted;
  ++job.restarts;
  for (RankState& rank : job.ranks) {
    rank = {};
    rank.since = kernel_.now();
  }
  running_.erase(index_of(job));
  gpus_.give_back(job.gpus);
}

void Jobs::preempt(std::uint32_t index) {
  leave_gpus(jobs_[index]);
  ++jobs_[index].result->preemptions;
  wait_for_gpus(index);
}

// A job that has lost a node is the next to get GPUs.
void Jobs::move(std::uint32_t index) {
  Job& job = jobs_[index];
  job.moves = true;
  leave_gpus(job);
  checkpoints_.forget(job);
  queue_.add_first(index);
}

void Jobs::resume(std::uint32_t index) {
  Job& job = jobs_[index];
  // It has as many GPUs as before, or others; they may be divided into ranks in another way.
  const Duration away = kernel_.now() - job.ranks.front().since;
  job.down += TotalTime(away) * static_cast<double>(job.gpus.size());
  job.ranks.assign(job.nodes.size(), {});
  for (RankState& rank : job.ranks) rank.since = kernel_.now();
  if (std::exchange(job.moves, false)) {
    ++job.result->restarts;
    if (checkpoints_.goes_back(job)) return go_back(index);
  }
  job.state = Job::State::joining;
  reports_.fact(engine::JobResized{job.id, item_batch(job), reports_.keep(job.nodes)});
}

}  // namespace batchflow::world
