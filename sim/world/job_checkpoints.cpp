// Checkpoints of jobs: how they are written, and how a job that has lost a node goes back to the
// last one.
#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "sim/world/chance.h"
#include "sim/world/jobs.h"

namespace batchflow::world {

void Jobs::begin_checkpoint(std::uint32_t index) {
  Job& job = jobs_[index];
  const input::CheckpointModel& model = job.model->checkpoint;
  // The scores that a weighted epoch was drawn from are lost with the job: it begins again.
  const std::uint64_t steps =
      job.model->order == Order::weighted ? job.epoch_began_at : job.steps_done;
  const bool waits = model.waits && model.bytes > 0;
  if (waits) ++job.holds;
  const TaskId task = tasks_.begin([this, index, steps, waits, restarts = job.restarts] {
    checkpoint_written(jobs_[index], steps);
    if (waits && jobs_[index].restarts == restarts) hold_over(index);
  });
  const Bytes part = model.bytes / job.ring.size();
  for (const NodeId node : job.ring) platform_.write_store(task, node.value, part);
  counters_.written_bytes += part * job.ring.size();
  tasks_.go(task);
  if (!goes_back(job)) return;
  job.writing.push_back({steps, {}, task});
  checkpointing_.push_back(index);
}

// A checkpoint is of the position that the engine has promised when the step is committed, which is
// at the same instant, after the checkpoint has begun.
void Jobs::promised(std::span<const engine::Promise> promises) {
  if (scenario_.faults.empty()) return;
  for (const engine::Promise& promise : promises) {
    if (!goes_back(job(promise.job))) continue;
    const std::string problem = promises_.apply(promise);
    BF_CHECK_MSG(problem.empty(), problem.c_str());
  }
  for (const std::uint32_t index : checkpointing_) {
    Job& job = jobs_[index];
    const auto found = promises_.jobs().find(job.id.value);
    if (found == promises_.jobs().end() || job.writing.empty()) continue;  // it left, or stopped
    Checkpoint& newest = job.writing.back();
    newest.position = found->second.join.position;
    if (job.model->order == Order::weighted) {
      const order::Position::Fields& at = newest.position->fields();
      newest.position =
          order::Position(at.order, at.dataset_version, at.samples, at.seed, at.epoch);
    }
  }
  checkpointing_.clear();
}

void Jobs::checkpoint_written(Job& job, std::uint64_t steps) {
  const auto written = std::find_if(job.writing.begin(), job.writing.end(),
                                    [&](const Checkpoint& one) { return one.steps == steps; });
  if (written == job.writing.end()) return;
  if (steps >= job.checkpoint.steps) job.checkpoint = std::move(*written);
  job.writing.erase(written);
}

// ------------------------------------------------------------------------------- going back ----

// Of a job that has lost a node: what is not written as a whole does not count.
void Jobs::forget_checkpoints(Job& job) {
  for (const Checkpoint& one : job.writing) tasks_.cancel(*one.writes);
  job.writing.clear();
  if (job.restores) tasks_.cancel(*job.restores);
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
      count_unfinished(jobs_[index]);
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

}  // namespace batchflow::world
