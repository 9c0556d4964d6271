// What a job does once it has GPUs and is admitted: step after step.
//
// Each rank wants as many batches as it has credits, trains on them in order, and releases them.
// Before it computes, its own loader may have work with the batch; while it computes, the ranks
// exchange what they learn. All ranks begin a step when all have ended the one before, and nothing
// else holds the job: a checkpoint that it waits for, or its validation.
#pragma once

#include <cstdint>

#include "sim/world/backend.h"
#include "sim/world/job.h"
#include "sim/world/job_checkpoints.h"
#include "sim/world/job_clocks.h"
#include "sim/world/job_table.h"
#include "sim/world/listed_batches.h"
#include "sim/world/parts.h"
#include "sim/world/score_reports.h"

namespace batchflow::world {

class JobTraining {
 public:
  class Listener {
   public:
    // The job has taken all its steps.
    virtual void trained_all(std::uint32_t job) = 0;
    // With its present step the job has ended an epoch for the first time.
    virtual void trained_epoch(std::uint32_t job) = 0;

   protected:
    ~Listener() = default;
  };
  JobTraining(const Parts& parts, JobTable& jobs, JobClocks& clocks, JobCheckpoints& checkpoints,
              Listener& listener);

  void begin(Job& job, std::uint32_t credits);
  // Of a job that runs, and of its present step or a later one.
  void delivered(std::uint32_t index, Delivered batch);
  // One thing that held the job between two steps is over.
  void end_hold(std::uint32_t index);
  // Nothing holds the job: its ranks train on what they have.
  void go_on(std::uint32_t index);
  // A step is completed by all ranks or by none.
  void forget_step(Job& job);

  // About the share of all steps of all jobs that have been taken.
  double progress() const;

 private:
  void want(Job& job, Rank number, std::uint32_t batches);
  void train(std::uint32_t index, Rank number);
  bool loads(std::uint32_t index, Rank number);
  void has_records(Job& job, const Delivered& batch);
  void trained(std::uint32_t index, Rank number);
  void begin_exchange(std::uint32_t index, Duration compute);
  void learn_from(Job& job, const Delivered& batch);
  void change_mixture(Job& job, std::uint64_t drawn);
  void step_done(std::uint32_t index);
  void count_step(Job& job);
  std::uint64_t batches_of(const Job& job) const;

  const Parts world_;
  JobTable& jobs_;
  JobClocks& clocks_;
  JobCheckpoints& checkpoints_;
  Listener& listener_;
  ScoreReports scores_;
  ListedBatches lists_;
  // What the progress bar counts: where blocks stand for streams, each step costs the same to
  // simulate.
  std::uint64_t work_all_ = 0;
  std::uint64_t work_done_ = 0;
};

}  // namespace batchflow::world
