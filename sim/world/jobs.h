// The jobs of a run: they arrive, wait for GPUs, join, train, and leave.
//
// The time of a rank is the sum of four: it computes, it waits for its batch (stall), it waits for
// the other ranks (idle), or for a node that is lost (down).
//
// Its parts each own a piece of what happens to jobs: JobSchedule their GPUs, JobTraining their
// steps, JobValidations what they do between epochs, JobLosses what they lose.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "programs/output/results.h"
#include "sim/world/backend.h"
#include "sim/world/job.h"
#include "sim/world/job_checkpoints.h"
#include "sim/world/job_clocks.h"
#include "sim/world/job_losses.h"
#include "sim/world/job_schedule.h"
#include "sim/world/job_table.h"
#include "sim/world/job_training.h"
#include "sim/world/job_validations.h"
#include "sim/world/join_reports.h"
#include "sim/world/parts.h"

namespace batchflow::world {

class Jobs final : public CompletionHandler,
                   private JobSchedule::Listener,
                   private JobTraining::Listener {
 public:
  explicit Jobs(const Parts& parts);

  // Sets the timers of all arrivals.
  void begin();
  bool all_over() const { return over_ == jobs_.size(); }
  std::size_t over() const { return over_; }
  Instant last_end() const { return last_end_; }
  double progress() const { return training_.progress(); }
  using UnderWay = JobClocks::UnderWay;
  UnderWay under_way() const;
  // Samples and stalls of the first jobs by now.
  std::vector<output::JobPoint> points() const;
  // Ends the run here, whatever is under way.
  void cut();
  // The results of each job by then; the jobs end with this.
  std::vector<output::JobResult> take_results();

  // What the engine has promised in its last step.
  void promised(std::span<const engine::Promise> promises);
  void node_down(NodeId node) { losses_.node_down(node); }
  void node_up(NodeId node) { losses_.node_up(node); }

  void admitted(const engine::Admit& command) override;
  void refused(const engine::Refuse& command) override;
  void delivered(const Delivered& batch) override;
  void epoch_ended(const engine::EpochEnded& command) override;
  void mixture_set(const engine::MixtureSet& command) override;
  std::size_t node_of(JobId job, Rank rank) const override;
  std::vector<std::size_t> gpus_of(JobId job, Rank rank) const override;
  const Workload::Preparation& preparation(JobId job) const override;

 private:
  void has_gpus(std::uint32_t index) override;
  void preempt(std::uint32_t index) override { losses_.preempt(index); }
  void trained_all(std::uint32_t index) override { leave(jobs_[index], "done"); }
  void trained_epoch(std::uint32_t index) override;

  void arrive(std::uint32_t index);
  void join(std::uint32_t index);
  void leave(Job& job, const char* state);
  void over(Job& job, const char* state);

  const Parts world_;
  JobTable jobs_;
  JobClocks clocks_;
  JobCheckpoints checkpoints_;
  JoinReports joins_;
  JobSchedule schedule_;
  JobTraining training_;
  JobValidations validations_;
  JobLosses losses_;
  std::map<int, Instant> opened_at_;  // by dataset
  std::size_t over_ = 0;
  Instant last_end_{};
};

}  // namespace batchflow::world
