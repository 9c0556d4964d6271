// A simulated job and its ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "core/base/types.h"
#include "core/order/position.h"
#include "programs/output/results.h"
#include "sim/world/backend.h"
#include "sim/world/live_sources.h"
#include "sim/world/mixture_losses.h"
#include "sim/world/sim_time.h"
#include "sim/world/tasks.h"
#include "sim/world/workload.h"

namespace batchflow::world {

struct RankState {
  bool loading = false;   // its loader has the batch
  bool loaded = false;    // its loader is ready with the batch
  bool training = false;  // it computes
  bool done = false;      // with the current step
  Instant since{};       // when its present state began: it computes, or waits for its batch or the
                         // other ranks
  Duration computes{0};  // in this step
  std::deque<Delivered> batches;
  std::uint64_t asked = 0;  // of a list: the next step that it asks a batch for
};
// Where a job can go back to. Before the first checkpoint: to its beginning.
struct Checkpoint {
  std::uint64_t steps = 0;  // that were done by then
  std::optional<order::Position> position;
  std::optional<TaskId> writes = {};
};
// A job, as jobs.h says.
struct Job {
  static constexpr std::uint32_t kNone = UINT32_MAX;
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
  // Below each heading, the part that changes the fields; the others read them. Jobs leads a job
  // from `queued` over `starting` to `joining`, and JobTraining makes it `running` when the engine
  // has admitted it. JobLosses makes a running job `down` or `preempted`; from there it is
  // `restoring` or `queued`, and joins again.
  State state = State::away;
  JobId id;  // by which the engine knows it
  const input::JobModel* model = nullptr;
  const Workload::Preparation* preparation = nullptr;
  std::uint32_t batch = 0;  // items of a step, for each GPU
  Instant started{};
  Instant ended{};

  // job_schedule.h: where it is.
  std::vector<NodeId> gpus;                // the node of each
  std::vector<std::uint32_t> gpu_numbers;  // which of that node's it is
  std::vector<NodeId> nodes;               // of its ranks
  std::vector<NodeId> ring;                // its nodes, each once
  Instant has_gpus_since{};

  // job_training.h: its steps. A rank is between the exchange of a step and the next step's begin
  // while `is_exchanged`; `epoch_over` is known when a rank has the epoch's last batch. A job that
  // lost a rank has neither.
  std::vector<RankState> ranks;
  std::uint64_t step = 0;  // its number for the engine; after a loss a number that was never used
  std::uint64_t steps_done = 0;       // how many
  std::uint32_t ranks_computing = 0;  // that have begun the step
  std::uint32_t ranks_done = 0;
  bool is_exchanged = false;  // what the ranks have learnt in this step
  bool epoch_over = false;    // with this step
  std::uint32_t epochs_trained = 0;
  std::uint64_t epoch_began_at = 0;  // steps that were done then
  std::uint64_t samples_done = 0;    // of the current step, by these ranks
  std::uint64_t fillers_done = 0;
  std::uint64_t rehearsed_done = 0;
  std::uint64_t drawn = 0;  // from its mixture, in all steps that were done
  std::uint32_t holds = 0;  // what others have it wait for before the next step

  // job_losses.h: what becomes of it when nodes or GPUs are taken.
  bool moves = false;               // it has left its GPUs because it has lost a node
  std::uint64_t earlier_steps = 0;  // numbers that were used before it last went back
  std::uint64_t repeats_until = 0;  // steps up to this one were done before
  std::optional<TaskId> restores;   // reads its checkpoint back
  double kept = 0;                  // of the current step, computed before it was preempted
  std::uint64_t restarts = 0;
  TotalTime attained{0};  // GPU time, before it was preempted the last time

  // job_checkpoints.h.
  std::deque<Checkpoint> writing;  // being written, oldest first
  Checkpoint checkpoint;           // the last one that is written

  // job_validations.h. Only a job that validates, and is over, lends its GPUs.
  std::uint32_t validation = kNone;  // the index of its validation
  bool validates = false;            // it waits for that
  bool lends_gpus = false;           // to that, after its own end

  // job_clocks.h: where its time went.
  Instant first_batch{};
  Instant first_step{};
  TotalTime compute{0};  // of all ranks
  TotalTime stall{0};
  TotalTime idle{0};
  TotalTime down{0};
  TotalTime first_compute{0};  // of the first step
  output::JobResult* result = nullptr;

  // jobs.h: its buffer, as the engine has promised it.
  std::vector<engine::Exemplar> exemplars;
  std::uint64_t shown = 0;

  // job_training.h: what it has had of a source that grows, and of the sources of its mixture.
  LiveRecords live;
  MixtureLosses sources;

  bool is_validation() const { return model->validates_for >= 0; }
  bool has_rank_on(NodeId node) const {
    return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
  }
  // Items of a step, for each rank.
  std::uint32_t rank_batch() const {
    return preparation->is_streamed ? batch / static_cast<std::uint32_t>(nodes.size()) : batch;
  }
  // The time of all its GPUs during which one of its ranks does something.
  TotalTime of_gpus(Duration of_one_rank) const;
  // Fills `result`, if it has had GPUs. `waited`: what its ranks waited for.
  void finish_result(Instant now, const output::Waits& waited) const;
};

}  // namespace batchflow::world
