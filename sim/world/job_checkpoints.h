// Checkpoints of jobs: they are written while a job trains, and a job that has lost a node goes
// back to the last one that was written as a whole.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/log/promise_log.h"
#include "sim/world/counters.h"
#include "sim/world/job.h"
#include "sim/world/platform.h"
#include "sim/world/tasks.h"

namespace batchflow::world {

class JobCheckpoints {
 public:
  JobCheckpoints(Tasks& tasks, Platform& platform, Counters& counters,
                 const input::Scenario& scenario)
      : tasks_(tasks), platform_(platform), counters_(counters), scenario_(scenario) {}

  // Whether the job goes back to a checkpoint when it has lost a node.
  bool goes_back(const Job& job) const {
    return job.model->checkpoint.every > 0 && !scenario_.faults.empty();
  }
  // Begins to write one. If the job waits for it, it is held until `go_on`.
  void begin(Job& job, std::function<void()> go_on);
  // What the engine has promised in its last step.
  void promised(std::span<const engine::Promise> promises,
                const std::function<const Job&(JobId)>& job_of);
  // Of a job that has lost a node: what is not written as a whole does not count.
  void forget(Job& job);

 private:
  static void written(Job& job, std::uint64_t steps);

  Tasks& tasks_;
  Platform& platform_;
  Counters& counters_;
  const input::Scenario& scenario_;
  log::Promises promises_;     // of jobs that go back to checkpoints
  std::vector<Job*> writing_;  // jobs that have begun to write one at this instant
};

}  // namespace batchflow::world
