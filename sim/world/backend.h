// Carries out the engine's commands on the platform: reads, preparations, copies, deliveries,
// workers, timers. It decides nothing, and does only what a command says.
//
// The outcome of a command is a report for the engine's next step. Batches are delivered to the
// jobs, which are also notified of all other commands that concern them.
#pragma once

#include <unordered_map>
#include <vector>

#include "configs/reader/results.h"
#include "sim/world/chance.h"
#include "sim/world/counters.h"
#include "sim/world/platform.h"
#include "sim/world/reports.h"
#include "sim/world/streamed_blocks.h"
#include "sim/world/tasks.h"
#include "sim/world/watch.h"
#include "sim/world/workload.h"

namespace batchflow::sim {

// A batch, as its rank sees it.
struct Delivered {
  JobId job;
  Rank rank;
  std::uint64_t step;
  std::uint32_t epoch;
  bool last_of_epoch;
  std::uint64_t samples = 0;  // neither fillers nor rehearsed samples
  std::uint64_t fillers = 0;
  std::uint64_t rehearsed = 0;
};

// Handles commands for jobs: the jobs.
class CompletionHandler {
 public:
  virtual void admitted(const Admit& command) = 0;
  virtual void refused(const Refuse& command) = 0;
  virtual void delivered(const Delivered& batch) = 0;
  virtual void epoch_ended(const EpochEnded& command) = 0;
  // The node of a rank of the job, and how the job's items are prepared.
  virtual std::size_t node_of(JobId job, Rank rank) const = 0;
  virtual const Workload::Preparation& preparation(JobId job) const = 0;

 protected:
  ~CompletionHandler() = default;
};

class Backend {
 public:
  struct Parts {
    Kernel& kernel;
    Tasks& tasks;
    Platform& platform;
    const Scenario& scenario;
    const Workload& workload;
    Reports& reports;
    Counters& counters;
    Watch& watch;
  };
  Backend(const Parts& parts, CompletionHandler& handler);

  // Reports all datasets, pipelines and nodes to the engine.
  void bring_up();
  void carry_out(std::span<const Command> commands);
  // The speed of a worker, relative to others of its node; it holds for its present work, too.
  void set_worker_speed(WorkerId worker, double factor);
  // The node gets so many cores more (or fewer), and a worker for each.
  void change_cores(NodeId node, std::int64_t more);
  std::vector<StepResult> step_results() const;

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Running {  // a command under way
    std::uint32_t attempt;
    TaskId task;
    std::uint32_t worker = kNone;  // of a preparation
    Bytes bytes = 0;               // of a read
  };
  struct Worker {
    NodeId node;
    bool there = true;
    double speed = 1;
    // Its present work, if any.
    bool busy = false;
    Request request{};
    std::uint64_t visits = 0;     // of items, in all epochs that the block stands for
    std::uint64_t decodings = 0;  // of these visits, from the stored form
    PipelineId pipeline;
    double core_s = 0;  // of its cores together, if they prepare together
    Instant began{};
    Instant ends{};
  };
  struct Node {
    std::uint32_t wanted = 0;
    std::uint32_t there = 0;
  };

  void on(const Admit& command) { handler_.admitted(command); }
  void on(const Refuse& command) { handler_.refused(command); }
  void on(const Read& command);
  void on(const Prepare& command);
  void on(const Transfer& command);
  void on(const Deliver& command);
  void on(const Drop&) {}
  void on(const Cancel& command);
  void on(const Release&) {}
  void on(const EpochEnded& command) { handler_.epoch_ended(command); }
  void on(const SetWorkers& command);
  void on(const SetTimer& command);

  TaskId begin(const Request& request, Then over);
  void count_read(const Read& command, std::uint64_t samples, Bytes bytes);
  void prepare_for(std::uint32_t worker, Duration time);
  void prepare_stream(const Prepare& command);
  Duration core_time(const Worker& worker) const;
  void prepared(std::uint32_t worker);
  void count_steps(const Worker& worker, Duration took);
  Random block_chance(Chance what, const Lineage& lineage, std::uint64_t more) const;
  Random read_chance(Chance what, const Read& command) const;
  Duration preparation_time(const Prepare& command, std::uint64_t visits,
                            std::uint64_t decodings) const;
  std::uint64_t decodings_of(const Prepare& command) const;
  void match_workers(NodeId node);
  void hire(NodeId node);
  void retire(NodeId node);
  std::size_t index_of(NodeId node) const { return node.value; }

  Kernel& kernel_;
  Tasks& tasks_;
  Platform& platform_;
  const Scenario& scenario_;
  const Workload& workload_;
  Reports& reports_;
  Counters& counters_;
  Watch& watch_;
  CompletionHandler& handler_;
  StreamedBlocks streamed_blocks_;
  std::unordered_map<std::uint64_t, Running> running_;  // by request; looked up, never walked
  std::vector<Worker> workers_;
  std::vector<Node> nodes_;
  std::vector<NodeId> scaled_;               // in the orders being carried out
  std::vector<Bytes> item_bytes_of_;         // by share of blocks
  std::vector<std::vector<double>> step_s_;  // core time, by preparation and step
};

}  // namespace batchflow::sim
