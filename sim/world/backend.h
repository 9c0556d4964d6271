// Carries out the engine's orders on the platform: reads, preparations, copies, deliveries,
// workers, timers. It decides nothing; what it is not told to do does not happen.
//
// Whatever an order comes to is a report for the engine's next step. What is delivered goes to the
// jobs, which are told of everything else that concerns them, too.
#pragma once

#include <unordered_map>
#include <vector>

#include "configs/reader/results.h"
#include "sim/world/chance.h"
#include "sim/world/counters.h"
#include "sim/world/errands.h"
#include "sim/world/platform.h"
#include "sim/world/reports.h"
#include "sim/world/streams.h"
#include "sim/world/watch.h"
#include "sim/world/workload.h"

namespace batchflow::sim {

// What a batch is, for the rank that gets it.
struct Delivered {
  JobId job;
  Rank rank;
  std::uint64_t step;
  std::uint32_t epoch;
  bool last_of_epoch;
  std::uint64_t samples = 0;  // neither fillers nor rehearsed ones
  std::uint64_t fillers = 0;
  std::uint64_t rehearsed = 0;
};

// Whom the backend tells: the jobs.
class Customer {
 public:
  virtual void admitted(const Admit& order) = 0;
  virtual void refused(const Refuse& order) = 0;
  virtual void delivered(const Delivered& batch) = 0;
  virtual void epoch_ended(const EpochEnded& order) = 0;
  // The node a rank of the job is on, and how its items are prepared.
  virtual std::size_t node_of(JobId job, Rank rank) const = 0;
  virtual const Workload::Preparation& preparation(JobId job) const = 0;

 protected:
  ~Customer() = default;
};

class Backend {
 public:
  struct Parts {
    Kernel& kernel;
    Errands& errands;
    Platform& platform;
    const Scenario& scenario;
    const Workload& workload;
    Reports& reports;
    Counters& counters;
    Watch& watch;
  };
  Backend(const Parts& parts, Customer& customer);

  // Tells the engine of all datasets, pipelines and nodes.
  void bring_up();
  void carry_out(std::span<const Command> commands);
  // So many times as fast as others of its node, in what it is at, too.
  void set_worker_speed(WorkerId worker, double factor);
  // The node has so many cores more (or less), and each a worker.
  void change_cores(NodeId node, std::int64_t more);
  std::vector<StepResult> step_results() const;

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Running {  // an order under way
    std::uint32_t attempt;
    ErrandId errand;
    std::uint32_t worker = kNone;  // of a preparation
    Bytes bytes = 0;               // of a read
  };
  struct Worker {
    NodeId node;
    bool there = true;
    double speed = 1;
    // What it is at, if anything.
    bool busy = false;
    Request request{};
    std::uint64_t visits = 0;     // of items, in all epochs the block stands for
    std::uint64_t decodings = 0;  // of these, from their stored form
    PipelineId pipeline;
    double core_s = 0;  // of its cores together, if they prepare together
    Instant began{};
    Instant ends{};
  };
  struct Node {
    std::uint32_t wanted = 0;
    std::uint32_t there = 0;
  };

  void on(const Admit& order) { customer_.admitted(order); }
  void on(const Refuse& order) { customer_.refused(order); }
  void on(const Read& order);
  void on(const Prepare& order);
  void on(const Transfer& order);
  void on(const Deliver& order);
  void on(const Drop&) {}
  void on(const Cancel& order);
  void on(const Release&) {}
  void on(const EpochEnded& order) { customer_.epoch_ended(order); }
  void on(const SetWorkers& order);
  void on(const SetTimer& order);

  ErrandId begin(const Request& request, Then over);
  void count_read(const Read& order, std::uint64_t samples, Bytes bytes);
  void prepare_for(std::uint32_t worker, Duration time);
  void prepare_stream(const Prepare& order);
  Duration core_time(const Worker& worker) const;
  void prepared(std::uint32_t worker);
  void count_steps(const Worker& worker, Duration took);
  Random block_chance(Chance what, const Lineage& lineage, std::uint64_t more) const;
  Random read_chance(Chance what, const Read& order) const;
  Duration preparation_time(const Prepare& order, std::uint64_t visits,
                            std::uint64_t decodings) const;
  std::uint64_t decodings_of(const Prepare& order) const;
  void match_workers(NodeId node);
  void hire(NodeId node);
  void retire(NodeId node);
  std::size_t index_of(NodeId node) const { return node.value; }

  Kernel& kernel_;
  Errands& errands_;
  Platform& platform_;
  const Scenario& scenario_;
  const Workload& workload_;
  Reports& reports_;
  Counters& counters_;
  Watch& watch_;
  Customer& customer_;
  Streams streams_;
  std::unordered_map<std::uint64_t, Running> running_;  // by request; looked up, never walked
  std::vector<Worker> workers_;
  std::vector<Node> nodes_;
  std::vector<NodeId> scaled_;               // in the orders being carried out
  std::vector<Bytes> item_bytes_of_;         // by share of blocks
  std::vector<std::vector<double>> step_s_;  // core time, by preparation and step
};

}  // namespace batchflow::sim
