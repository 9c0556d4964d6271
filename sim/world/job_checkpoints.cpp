#include "sim/world/job_checkpoints.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace batchflow::world {

void JobCheckpoints::begin(Job& job, std::function<void()> go_on) {
  const input::CheckpointModel& model = job.model->checkpoint;
  // The scores that a weighted epoch was drawn from are lost with the job: it begins again.
  const std::uint64_t steps =
      job.model->order == Order::weighted ? job.epoch_began_at : job.steps_done;
  const bool waits = model.waits && model.bytes > 0;
  if (waits) ++job.holds;
  const TaskId task =
      tasks_.begin([&job, steps, waits, go_on = std::move(go_on), restarts = job.restarts] {
        written(job, steps);
        if (waits && job.restarts == restarts) go_on();
      });
  const Bytes part = model.bytes / job.ring.size();
  for (const NodeId node : job.ring) platform_.write_store(task, node.value, part);
  counters_.written_bytes += part * job.ring.size();
  tasks_.go(task);
  if (!goes_back(job)) return;
  job.writing.push_back({steps, {}, task});
  writing_.push_back(&job);
}

// A checkpoint is of the position that the engine has promised when the step is committed, which is
// at the same instant, after the checkpoint has begun.
void JobCheckpoints::promised(std::span<const engine::Promise> promises,
                              const std::function<const Job&(JobId)>& job_of) {
  if (scenario_.faults.empty()) return;
  for (const engine::Promise& promise : promises) {
    if (promise.job.is_none() || !goes_back(job_of(promise.job))) continue;
    const std::string problem = promises_.apply(promise);
    BF_CHECK_MSG(problem.empty(), problem.c_str());
  }
  for (Job* const one : writing_) {
    Job& job = *one;
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
  writing_.clear();
}

void JobCheckpoints::written(Job& job, std::uint64_t steps) {
  const auto written = std::find_if(job.writing.begin(), job.writing.end(),
                                    [&](const Checkpoint& one) { return one.steps == steps; });
  if (written == job.writing.end()) return;
  if (steps >= job.checkpoint.steps) job.checkpoint = std::move(*written);
  job.writing.erase(written);
}

void JobCheckpoints::forget(Job& job) {
  for (const Checkpoint& one : job.writing) tasks_.cancel(*one.writes);
  job.writing.clear();
  if (job.restores) tasks_.cancel(*job.restores);
}

}  // namespace batchflow::world
