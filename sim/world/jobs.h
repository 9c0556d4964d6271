// The jobs of a run: they arrive, wait for GPUs, join, train, and leave.
//
// Each rank of a job wants as many batches as it has credits, trains on them in order, and releases
// them. All ranks begin a step when all have ended the one before. The time of a rank is the sum of
// four: it computes, it waits for its batch (stall), it waits for the other ranks (idle), or for a
// node that is lost (down).
//
// A job that loses a node with ranks on it stops: its other ranks release what they have. When all
// its nodes are up again it goes on from its last completed step, with the same ranks. If that
// takes longer than the engine waits for a lost rank, the job is refused. Where the scenario's jobs
// move, it leaves its GPUs instead, and gets others before all jobs that wait.
//
// A job that writes checkpoints goes back to the last one that was written as a whole, or to its
// beginning. Its processes start anew and read the checkpoint; to the engine it is another job,
// which joins at that position. The steps that it takes again count as repeated, and as nothing
// else.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "programs/output/results.h"
#include "sim/world/backend.h"
#include "sim/world/counters.h"
#include "sim/world/gpu_queue.h"
#include "sim/world/job.h"
#include "sim/world/job_checkpoints.h"
#include "sim/world/job_clocks.h"
#include "sim/world/job_ids.h"
#include "sim/world/job_queue.h"
#include "sim/world/kernel.h"
#include "sim/world/reports.h"
#include "sim/world/score_reports.h"
#include "sim/world/sim_time.h"
#include "sim/world/tasks.h"
#include "sim/world/workload.h"

namespace batchflow::world {

class Jobs final : public CompletionHandler {
 public:
  explicit Jobs(const Parts& parts);

  // Sets the timers of all arrivals.
  void begin();
  bool all_over() const { return over_ == jobs_.size(); }
  std::size_t over() const { return over_; }
  Instant last_end() const { return last_end_; }
  // About the share of all steps of all jobs that have been taken.
  double progress() const;
  using UnderWay = JobClocks::UnderWay;
  UnderWay under_way() const;
  // Samples and stalls of the first jobs by now.
  std::vector<output::JobPoint> points() const;
  // Ends the run here, whatever is under way.
  void cut();
  // The results of each job by then. They are taken, not copied, because there may be a million;
  // the jobs end with this.
  std::vector<output::JobResult> take_results();

  // What the engine has promised in its last step.
  void promised(std::span<const engine::Promise> promises);
  void node_down(NodeId node);
  void node_up(NodeId node);

  void admitted(const engine::Admit& command) override;
  void refused(const engine::Refuse& command) override;
  void delivered(const Delivered& batch) override;
  void epoch_ended(const engine::EpochEnded& command) override;
  std::size_t node_of(JobId job, Rank rank) const override;
  const Workload::Preparation& preparation(JobId job) const override;

 private:
  Job& job(JobId id) { return jobs_[ids_.index_of(id)]; }
  const Job& job(JobId id) const { return jobs_[ids_.index_of(id)]; }
  void arrive(std::uint32_t index);
  void wait_for_gpus(std::uint32_t index);
  void start_queued();
  void assign_gpus(Job& job, std::vector<NodeId> gpus) const;
  std::uint32_t item_batch(const Job& job) const;
  bool preempts() const { return scenario_.scheduler == input::Scheduler::las; }
  TotalTime attained(const Job& job) const;
  void watch_for_much(std::uint32_t index);
  bool make_room_for(std::uint32_t index);
  void keep_what_is_done(Job& job);
  void leave_gpus(Job& job);
  void preempt(std::uint32_t index);
  void move(std::uint32_t index);
  void resume(std::uint32_t index);
  void start(std::uint32_t index);
  void join(std::uint32_t index);
  void report_join(std::uint32_t index);
  void train(std::uint32_t index, std::uint32_t credits);
  void report_exemplars(std::uint32_t index);
  void train_rank(std::uint32_t index, Rank rank);
  void trained(std::uint32_t index, Rank rank);
  void step_done(std::uint32_t index);
  // job_traffic.cpp
  bool loads(std::uint32_t index, Rank number);
  bool has_exchange(const Job& job) const {
    return job.model->exchange.bytes > 0 && job.ring.size() > 1;
  }
  void begin_exchange(std::uint32_t index, Duration compute);
  // job_losses.cpp
  void go_back(std::uint32_t index);
  void restore(std::uint32_t index, std::uint32_t credits);
  // job_traffic.cpp
  void begin_validation(std::uint32_t index);
  void end_validation(std::uint32_t index);
  void hold_over(std::uint32_t index);
  void forget_traffic(Job& job) const;
  std::string no_room_on_gpus(const Job& job) const;
  std::uint32_t batches_on_gpu(const Job& job) const;
  std::uint32_t index_of(const Job& job) const {
    return static_cast<std::uint32_t>(&job - jobs_.data());
  }

  void leave(std::uint32_t index, const char* state);
  void over(Job& job, const char* state);
  bool all_up(const Job& job) const;
  void forget_step(Job& job);
  void stop(std::uint32_t index);
  void go_on(std::uint32_t index);
  void start_anew(std::uint32_t index);
  void release(const Job& job, Rank rank, std::uint64_t step);
  std::uint64_t batches_of(const input::JobModel& model) const;
  // What the progress bar counts: where blocks stand for streams, each step costs the same to
  // simulate.
  std::uint64_t weight_of(const Job& job, std::uint64_t batches) const {
    return job.preparation->is_streamed ? 1 : batches;
  }

  Kernel& kernel_;
  Tasks& tasks_;
  Platform& platform_;
  const input::Scenario& scenario_;
  const Workload& workload_;
  Reports& reports_;
  Counters& counters_;
  Watch& watch_;
  JobIds& ids_;
  JobClocks clocks_;
  JobCheckpoints checkpoints_;
  ScoreReports scores_;
  GpuQueue gpus_;
  std::set<NodeId> down_;
  std::map<int, Instant> opened_at_;        // by dataset
  std::vector<Job> jobs_;                   // by index in the scenario
  std::vector<output::JobResult> results_;  // by job
  JobQueue queue_;
  std::set<std::uint32_t> running_;  // have GPUs
  std::size_t over_ = 0;
  std::uint64_t work_all_ = 0;  // weights of all steps that will be taken
  std::uint64_t work_done_ = 0;
  Instant last_end_{};
};

}  // namespace batchflow::world
