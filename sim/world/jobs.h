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

#include "core/log/promise_log.h"
#include "programs/output/results.h"
#include "sim/world/backend.h"
#include "sim/world/counters.h"
#include "sim/world/gpu_queue.h"
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
  // What ranks are doing, as far as it is not in the counters yet.
  struct UnderWay {
    TotalTime compute{0};
    TotalTime stall{0};
    TotalTime idle{0};
    std::uint64_t ranks = 0;
    std::uint64_t stalling = 0;
  };
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
  struct RankState {
    bool loading = false;   // its loader has the batch
    bool loaded = false;    // its loader is ready with the batch
    bool training = false;  // it computes
    bool done = false;      // with the current step
    Instant since{};  // when its present state began: it computes, or waits for its batch or the
                      // other ranks
    Duration computes{0};  // in this step
    std::deque<Delivered> batches;
  };
  // Where a job can go back to. Before the first checkpoint: to its beginning.
  struct Checkpoint {
    std::uint64_t steps = 0;  // that were done by then
    std::optional<order::Position> position;
    std::optional<TaskId> writes = {};
  };
  struct Job {
    enum class State : std::uint8_t {
      away,
      queued,
      starting,
      joining,
      running,
      down,
      restoring,  // from its checkpoint
      preempted,
      over
    };
    State state = State::away;
    JobId id;  // by which the engine knows it
    const input::JobModel* model = nullptr;
    const Workload::Preparation* preparation = nullptr;
    std::vector<NodeId> gpus;   // the node of each
    std::vector<NodeId> nodes;  // of its ranks
    std::vector<RankState> ranks;
    std::uint64_t step = 0;  // its number for the engine; after a loss a number that was never used
    std::uint64_t earlier_steps = 0;   // numbers that were used before it last went back
    std::uint64_t steps_done = 0;      // how many
    std::uint64_t repeats_until = 0;   // steps up to this one were done before
    std::uint64_t epoch_began_at = 0;  // steps that were done then
    std::deque<Checkpoint> writing;    // being written, oldest first
    Checkpoint checkpoint;             // the last one that is written
    std::optional<TaskId> restores;    // reads that one back
    double kept = 0;                   // of the current step, computed before the job was preempted
    std::uint64_t restarts = 0;
    bool moves = false;  // it has left its GPUs because it has lost a node
    std::uint32_t ranks_done = 0;
    // What the step also takes (job_traffic.cpp).
    std::vector<NodeId> ring;           // its nodes, each once
    std::uint32_t ranks_computing = 0;  // that have begun the step
    bool is_exchanged = false;          // what the ranks have learnt in this step
    bool epoch_over = false;            // with this step
    std::uint32_t holds = 0;            // what it waits for before the next step
    std::uint32_t epochs_trained = 0;
    std::uint32_t validation = kNone;  // the index of its validation
    bool validates = false;            // it waits for that
    bool lends_gpus = false;           // to that, after its own end
    std::uint64_t samples_done = 0;    // of the current step, by these ranks
    std::uint64_t fillers_done = 0;
    std::uint64_t rehearsed_done = 0;
    Instant started{};
    Instant has_gpus_since{};
    TotalTime attained{0};  // GPU time, before the job was preempted the last time
    Instant ended{};
    Instant first_batch{};
    Instant first_step{};
    TotalTime compute{0};  // of all ranks
    TotalTime stall{0};
    TotalTime idle{0};
    TotalTime down{0};
    TotalTime first_compute{0};  // of the first step
    output::JobResult* result = nullptr;
  };

  static constexpr std::uint32_t kNone = UINT32_MAX;

  Job& job(JobId id) { return jobs_[ids_.index_of(id)]; }
  const Job& job(JobId id) const { return jobs_[ids_.index_of(id)]; }
  void arrive(std::uint32_t index);
  void wait_for_gpus(std::uint32_t index);
  void start_queued();
  void assign_gpus(Job& job, std::vector<NodeId> gpus) const;
  std::uint32_t item_batch(const Job& job) const;
  static TotalTime of_gpus(const Job& job, Duration of_one_rank);
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
  // job_checkpoints.cpp
  // Whether the job goes back to a checkpoint when it has lost a node.
  bool goes_back(const Job& job) const {
    return job.model->checkpoint.every > 0 && !scenario_.faults.empty();
  }
  void begin_checkpoint(std::uint32_t index);
  void checkpoint_written(Job& job, std::uint64_t steps);
  void forget_checkpoints(Job& job);
  void go_back(std::uint32_t index);
  void restore(std::uint32_t index, std::uint32_t credits);
  // job_traffic.cpp
  void begin_validation(std::uint32_t index);
  void end_validation(std::uint32_t index);
  void hold_over(std::uint32_t index);
  void forget_traffic(Job& job) const;
  std::string no_room_on_gpus(const Job& job) const;
  std::uint32_t batches_on_gpu(const Job& job) const;
  bool is_validation(const Job& job) const { return job.model->validates_for >= 0; }
  std::uint32_t index_of(const Job& job) const {
    return static_cast<std::uint32_t>(&job - jobs_.data());
  }

  void leave(std::uint32_t index, const char* state);
  void over(Job& job, const char* state);
  void count_unfinished(Job& job);
  void add_under_way(const Job& job, UnderWay& sum) const;
  bool has_rank_on(const Job& job, NodeId node) const;
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
  ScoreReports scores_;
  GpuQueue gpus_;
  std::set<NodeId> down_;
  log::Promises promises_;                    // of jobs that go back to checkpoints
  std::vector<std::uint32_t> checkpointing_;  // jobs that have begun to write one at this instant
  std::map<int, Instant> opened_at_;          // by dataset
  std::vector<Job> jobs_;                     // by index in the scenario
  std::vector<output::JobResult> results_;    // by job
  JobQueue queue_;
  std::set<std::uint32_t> running_;  // have GPUs
  std::size_t over_ = 0;
  std::uint64_t work_all_ = 0;  // weights of all steps that will be taken
  std::uint64_t work_done_ = 0;
  Instant last_end_{};
};

}  // namespace batchflow::world
