// Makes hardware fail, on purpose and repeatably: a wrapper around Engine::step.
//
//   FaultInjector world(faults, seed, catalogues, engine_step, set_speed);
//   for (;;) {
//     collect events, but for no longer than until world.due();
//     carry_out(world.step(now, events));   // instead of engine_step(now, events)
//   }
//
// It stands between a backend, in which everything works, and an engine, to which it shows a world
// in which things break. Commands to what is dead are swallowed, and events from it are dropped.
// The engine gets the events that a real failure would cause: NodeLost, WorkerLost,
// CapacityChanged, failed reads, samples that cannot be decoded. The backend sees commands alone:
// what runs on something that dies is cancelled there, and begun anew where it can go on later.
//
// Slowing down happens in the backend, by one hook: set_speed. A node of speed 0 is dead, and so
// are the processes of jobs on it. The engine learns from NodeLost which ranks it has lost. When
// the backend hears that the node has speed 1 again, it brings them back (JobResized).
//
// All random numbers are drawn from the seed, and each fault has a stream of its own. The same
// events at the same times give the same faults, bit for bit.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <variant>
#include <vector>

#include "core/base/config_value.h"
#include "core/base/random.h"
#include "core/engine/catalogue.h"
#include "core/engine/event.h"
#include "core/order/order.h"

namespace batchflow::faults {

// Something that goes wrong, when it begins, and how long it lasts.
struct Fault {
  enum class Kind : std::uint8_t {
    node_lost,    // with all that is on it
    worker_lost,  // `count` workers of the node
    drive_lost,   // `place` and all that it holds; what is read from it fails
    cut_off,  // `cut_nodes`, and the stores with `cut_stores`, can be reached from no other node
    slowed,   // `hardware`, by `factor`
    worker_slowed,    // `count` workers of the node, by `factor`
    samples_corrupt,  // `count` samples of the dataset cannot be decoded
    reads_failed,     // of those from `place`, each with the chance `ratio`
  };
  Kind kind = Kind::node_lost;
  Instant at{};
  Duration lasts{0};           // 0: for good
  Duration detected_after{0};  // a lost node or worker: until it is reported to the engine
  Duration quiet_after{0};     // a lost worker: from then until it is known to write no more
  // What is under way to or from the nodes that are cut off waits; after this long it has failed.
  Duration timeout = std::chrono::seconds(30);
  NodeId node = NodeId::none();
  Place place;
  std::vector<NodeId> cut_nodes = {};
  bool cut_stores = false;     // the stores are cut off with the nodes
  std::uint32_t hardware = 0;  // a number that the backend and the list's maker agree on
  double factor = 1;
  DatasetId dataset = DatasetId::none();
  std::uint64_t count = 1;
  Ratio ratio = {};
};

class FaultInjector {
 public:
  using EngineStep =
      std::function<std::span<const engine::Command>(Instant, std::span<const engine::Event>)>;

  // What set_speed speaks of: a node or a worker by its id, hardware by its number.
  enum class Part : std::uint8_t { node, worker, hardware };
  // From now on the part does everything this many times as fast as without faults.
  using SetSpeed = std::function<void(Part part, std::uint32_t which, double factor)>;

  // What became of a fault.
  struct Struck {
    bool struck = false;  // there was something to strike
    Instant from{};
    Instant until = kNever;   // when it was over; kNever: it was not, yet
    std::uint64_t parts = 0;  // nodes, workers, commands held, reads failed, corrupt samples met
  };

  // `catalogues` outlives it. `engine` is not called when there is nothing to report.
  FaultInjector(std::vector<Fault> faults, std::uint64_t seed, const engine::Catalogues& catalogues,
                EngineStep engine, SetSpeed set_speed);

  // The commands live until the next call.
  std::span<const engine::Command> step(Instant now, std::span<const engine::Event> events);
  // When to call `step` at the latest; kNever when nothing more is planned.
  Instant due() const { return plan_.empty() ? kNever : std::get<Instant>(*plan_.begin()); }
  // For each fault, in the order of the list.
  std::span<const Struck> struck() const { return struck_; }

 private:
  enum class Act : std::uint8_t { strike, report, quiet, end, fail };
  // What happens next: at this time, in this order of planning, do this to this fault (or fail this
  // command).
  using Planned = std::tuple<Instant, std::uint64_t, Act, std::uint64_t>;

  // A command that the backend carries out, or would carry out if it could.
  struct PendingCommand {
    enum class State : std::uint8_t { running, held, swallowed };
    State state = State::running;
    std::variant<engine::Read, engine::Prepare, engine::Transfer, engine::Deliver>
        command;                         // its lists are gone
    std::vector<SampleId> samples = {};  // of a read that names them; that a preparation decodes
    Instant fails{};                     // while held
  };
  struct Worker {
    enum class State : std::uint8_t { alive, dead, reported, quiet };
    NodeId node;
    State state = State::alive;
  };

  // Events on their way to the engine.
  template <class Fact>
  void observe(const Fact& event);
  template <class Completion>
  std::optional<PendingCommand> completed(const Completion& event);
  void observe_read(const engine::ReadDone& event);
  void observe_prepared(const engine::PreparationDone& event);
  void choose_samples(const engine::CatalogueKnown& event);
  bool rank_is_dead(JobId job, Rank rank) const;
  void pass_on(const engine::Event& event) { events_.push_back(event); }

  // Commands on their way to the backend.
  template <class Command>
  void observe_command(const Command& command);
  template <class Command>
  void begin(const Command& command);
  std::vector<SampleId> decoded_by(const engine::Prepare& command);

  // Which nodes, workers and drives a command needs.
  static std::optional<std::pair<NodeId, NodeId>> ends_of(const PendingCommand& pending);
  static bool touches(const PendingCommand& pending, NodeId node);
  bool is_swallowed(const PendingCommand& pending) const;
  std::optional<std::size_t> cut_by(const PendingCommand& pending) const;
  bool is_drive_lost(Place place) const;

  void plan(Instant when, Act act, std::uint64_t which);
  void act(Act act, std::uint64_t which);
  void strike(std::uint64_t fault);
  void report(std::uint64_t fault);
  void quiet(std::uint64_t fault);
  void end(std::uint64_t fault);

  bool lose_node(NodeId node);
  void return_node(NodeId node);
  bool lose_drive(std::uint64_t fault);
  void choose_workers(std::uint64_t fault);
  void lose_workers(std::uint64_t fault);
  void cut_off();
  void reconnect();
  void report_speed(std::uint64_t fault);
  void stop(PendingCommand& pending, PendingCommand::State state);
  void hold(RequestId id, PendingCommand& pending, Duration timeout);
  bool hold_if_cut(RequestId id, PendingCommand& pending);
  void fail(RequestId id);

  const std::vector<Fault> faults_;
  // The faults that each command is compared with, by index. Lost nodes are not among them, because
  // there may be many.
  std::vector<std::size_t> cuts_;
  std::vector<std::size_t> lost_drives_;
  std::vector<std::size_t> failing_reads_;
  const Random random_;
  const engine::Catalogues& catalogues_;
  const EngineStep engine_;
  const SetSpeed set_speed_;
  std::vector<Struck> struck_;
  std::vector<bool> active_;
  std::vector<std::vector<WorkerId>> chosen_;   // by fault
  std::vector<std::vector<SampleId>> corrupt_;  // by fault, sorted
  std::vector<std::set<SampleId>> met_;         // by fault: of these, those that were decoded
  std::set<Planned> plan_;
  std::uint64_t serials_ = 0;
  Instant now_{};

  // What the backend has reported.
  std::map<NodeId, std::uint32_t> cores_;
  std::map<Place, Bytes> capacity_;
  std::map<WorkerId, Worker> workers_;
  std::map<JobId, std::vector<NodeId>> ranks_;
  std::set<NodeId> dead_;
  std::map<RequestId, PendingCommand> pending_;

  std::vector<engine::Event> events_;
  std::vector<engine::Command> commands_;
  std::deque<std::vector<SampleId>> lists_;  // that events refer to
  order::Expander expander_;
};

}  // namespace batchflow::faults
