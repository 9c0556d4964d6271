// Carries out the engine's commands on the platform: reads, preparations, copies, deliveries,
// workers, timers. It decides nothing, and does only what a command says.
//
// The outcome of a command is a report for the engine's next step. Batches are delivered to the
// jobs, which are also notified of all other commands that concern them.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "core/order/order.h"
#include "programs/output/results.h"
#include "sim/world/chance.h"
#include "sim/world/counters.h"
#include "sim/world/live_sources.h"
#include "sim/world/parts.h"
#include "sim/world/platform.h"
#include "sim/world/read_queue.h"
#include "sim/world/reports.h"
#include "sim/world/streamed_blocks.h"
#include "sim/world/tasks.h"
#include "sim/world/watch.h"
#include "sim/world/workload.h"

namespace batchflow::world {

// A batch, as its rank sees it.
struct Delivered {
  JobId job;
  Rank rank;
  std::uint64_t step;
  std::uint32_t epoch;
  bool last_of_epoch;         // no other batch of the rank comes in this epoch
  std::uint64_t samples = 0;  // neither fillers nor rehearsed samples
  std::uint64_t fillers = 0;
  std::uint64_t rehearsed = 0;
  std::vector<SampleId> drawn = {};  // of a drawn order: its samples, in their order
};

// Handles commands for jobs: the jobs.
class CompletionHandler {
 public:
  virtual void admitted(const engine::Admit& command) = 0;
  virtual void refused(const engine::Refuse& command) = 0;
  virtual void delivered(const Delivered& batch) = 0;
  virtual void epoch_ended(const engine::EpochEnded& command) = 0;
  virtual void mixture_set(const engine::MixtureSet& command) = 0;
  // The node of a rank of the job, and how the job's items are prepared.
  virtual std::size_t node_of(JobId job, Rank rank) const = 0;
  // The GPUs of that node that are the rank's.
  virtual std::vector<std::size_t> gpus_of(JobId job, Rank rank) const = 0;
  virtual const Workload::Preparation& preparation(JobId job) const = 0;

 protected:
  ~CompletionHandler() = default;
};

class Backend {
 public:
  Backend(const Parts& parts, CompletionHandler& handler);

  // Reports all datasets, pipelines and nodes to the engine.
  void bring_up();
  void carry_out(std::span<const engine::Command> commands);
  // The speed of a worker, relative to others of its node; it holds for its present work, too.
  void set_worker_speed(WorkerId worker, double factor);
  // The node gets `more` cores (fewer, if negative), and a worker for each.
  void change_cores(NodeId node, std::int64_t more);
  std::vector<output::StepResult> step_results() const;

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Running {  // a command under way
    std::uint32_t attempt;
    TaskId task;
    std::uint32_t worker = kNone;  // of a preparation
    Bytes bytes = 0;               // of a read
    std::size_t reads_at = kNone;  // the node of a read
  };
  struct Worker {
    NodeId node;
    bool there = true;  // its node is up
    double speed = 1;
    // Its present work, if any.
    bool busy = false;
    engine::Request request{};
    std::uint64_t visits = 0;     // of items, in all epochs that the block stands for
    std::uint64_t decodings = 0;  // of these visits, from the stored form
    PipelineId pipeline;
    Place keeps_at{};  // what it decodes, in the memory of a GPU
    Bytes keeps = 0;
    TaskId waits = 0;   // for its turn
    double core_s = 0;  // of its cores together, if they prepare together
    Instant began{};
    Instant ends{};
  };
  struct Node {
    std::uint32_t wanted = 0;
    std::uint32_t there = 0;
    ReadQueue reads{0};               // from the store
    std::deque<std::uint32_t> turns;  // workers; their blocks come one after the other
  };

  void on(const engine::Admit& command) { handler_.admitted(command); }
  void on(const engine::Refuse& command) { handler_.refused(command); }
  void on(const engine::Read& command);
  void on(const engine::Prepare& command);
  void on(const engine::Transfer& command);
  void on(const engine::Deliver& command);
  void on(const engine::Drop&) {}
  void on(const engine::Cancel& command);
  void on(const engine::Release&) {}
  void on(const engine::EpochEnded& command) { handler_.epoch_ended(command); }
  void on(const engine::SetWorkers& command);
  void on(const engine::SetTimer& command);
  void on(const engine::LetGo&) {}
  void on(const engine::Adopt&) {}
  void on(const engine::MixtureSet& command) { handler_.mixture_set(command); }
  void on(const engine::ExemplarsSet&) {}
  void on(const engine::SourcePaced& command) { live_.go_on(command); }

  TaskId begin(const engine::Request& request, Then over);
  void count_read(const engine::Read& command, std::uint64_t samples, Bytes bytes);
  void keep_on_gpu(TaskId task, const Worker& worker);
  void prepare_for(std::uint32_t worker, Duration time);
  void take_turn(std::size_t node);
  void turn_over(std::uint32_t worker);
  void prepare_stream(const engine::Prepare& command);
  Duration core_time(const Worker& worker) const;
  void prepared(std::uint32_t worker);
  void count_steps(const Worker& worker, Duration took);
  Random block_chance(Chance what, const order::Lineage& lineage, std::uint64_t more) const;
  Random read_chance(Chance what, const engine::Read& command) const;
  struct SlowItems {
    double all = 0;
    double decoded = 0;
  };
  SlowItems slow_items(const engine::Prepare& command);
  double slow_part(const Workload::Data& data, const Workload::Preparation& preparation,
                   SampleId item) const;
  Duration preparation_time(const engine::Prepare& command, std::uint64_t visits,
                            std::uint64_t decodings);
  std::uint64_t decodings_of(const engine::Prepare& command) const;
  void match_workers(NodeId node);
  void hire(NodeId node);
  void retire(NodeId node);
  std::size_t index_of(NodeId node) const { return node.value; }

  Kernel& kernel_;
  Tasks& tasks_;
  Platform& platform_;
  const input::Scenario& scenario_;
  const Workload& workload_;
  Reports& reports_;
  Counters& counters_;
  Watch& watch_;
  LiveSources& live_;
  CompletionHandler& handler_;
  StreamedBlocks streamed_blocks_;
  std::unordered_map<std::uint64_t, Running> running_;  // by request; looked up, never walked
  std::vector<Worker> workers_;
  std::vector<Node> nodes_;
  std::vector<NodeId> scaled_;        // by the commands being carried out
  std::vector<Bytes> item_bytes_of_;  // by share of blocks
  Bytes touched_bytes_ = 0;
  order::Expander expander_;
  std::vector<SampleId> unnamed_;            // scratch
  std::vector<std::vector<double>> step_s_;  // core time, by preparation and step
};

}  // namespace batchflow::world
