// Jobs that lose what they run on.
//
// A job that loses a node with ranks on it stops: its other ranks release what they have. When all
// its nodes are up again it goes on from its last completed step, with the same ranks. If that
// takes longer than the engine waits for a lost rank, the job is refused. Where the scenario's jobs
// move, it leaves its GPUs instead, and gets others before all jobs that wait. A job may also lose
// its GPUs to a job that had less GPU time.
//
// A job that writes checkpoints goes back to the last one that was written as a whole, or to its
// beginning. Its processes start anew and read the checkpoint; to the engine it is another job,
// which joins at that position. The steps that it takes again count as repeated, and as nothing
// else.
#pragma once

#include <cstdint>
#include <set>

#include "sim/world/job.h"
#include "sim/world/job_checkpoints.h"
#include "sim/world/job_clocks.h"
#include "sim/world/job_schedule.h"
#include "sim/world/job_table.h"
#include "sim/world/job_training.h"
#include "sim/world/join_reports.h"
#include "sim/world/parts.h"

namespace batchflow::world {

class JobLosses {
 public:
  JobLosses(const Parts& parts, JobTable& jobs, JobClocks& clocks, JobCheckpoints& checkpoints,
            JobSchedule& schedule, JobTraining& training, JoinReports& joins)
      : world_(parts),
        jobs_(jobs),
        clocks_(clocks),
        checkpoints_(checkpoints),
        schedule_(schedule),
        training_(training),
        joins_(joins) {}

  void node_down(NodeId node);
  void node_up(NodeId node);
  // The job leaves its GPUs to another, and waits for GPUs.
  void preempt(std::uint32_t index);
  // A job that has left its GPUs has some again.
  void resume(std::uint32_t index);
  // A job that goes back to a checkpoint is admitted: its processes start, and each node reads its
  // part of the checkpoint, if there is one.
  void restore(std::uint32_t index, std::uint32_t credits);
  // Of a step that will not be completed.
  void release(const Job& job, Rank rank, std::uint64_t step);

 private:
  bool is_up(const Job& job) const;
  void start_anew(std::uint32_t index);
  void stop(Job& job);
  void go_on(std::uint32_t index);
  void join_again(std::uint32_t index);
  void leave_engine(Job& job);
  void go_back(std::uint32_t index);
  void keep_what_is_done(Job& job);
  void leave_gpus(Job& job);
  void move(std::uint32_t index);
  static void forget_ranks(Job& job, Instant now);

  const Parts world_;
  JobTable& jobs_;
  JobClocks& clocks_;
  JobCheckpoints& checkpoints_;
  JobSchedule& schedule_;
  JobTraining& training_;
  JoinReports& joins_;
  std::set<NodeId> down_;
};

}  // namespace batchflow::world
