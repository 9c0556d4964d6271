// The fault injector alone, between a script of events and an engine that only listens: what is
// told, what is swallowed, what is held and begun anew.
#include "sim/faults/fault_injector.h"

#include <doctest/doctest.h>

#include <string>

#include "core/log/event_codec.h"

namespace batchflow::test::fault_injector_test {

namespace {

constexpr NodeId kNode{1};
constexpr NodeId kOther{2};
constexpr Place kStore{NodeId::none(), Tier::store, 0};

Instant s(double seconds) {
  return Instant(Duration(static_cast<std::int64_t>(seconds * 1e9)));
}
Place dram(NodeId node) {
  return {node, Tier::dram, 0};
}
Place nvme(NodeId node) {
  return {node, Tier::nvme, 0};
}

// An engine that says what it hears by name, and orders what the test has put down for it.
class Rig {
 public:
  explicit Rig(std::vector<faults::Fault> faults)
      : injector_(
            std::move(faults), 7, catalogues_,
            [this](Instant,
                   std::span<const engine::Event> events) -> std::span<const engine::Command> {
              for (const engine::Event& event : events) heard_ += name(log::describe(event));
              ordered_.swap(next_);
              next_.clear();
              return ordered_;
            },
            [this](faults::FaultInjector::Part part, std::uint32_t which, double factor) {
              speeds_ += std::to_string(static_cast<int>(part)) + ":" + std::to_string(which) +
                         "=" + std::to_string(factor).substr(0, 4) + " ";
            }) {
    tell(s(0),
         {engine::NodeJoined{kNode, 4}, engine::NodeJoined{kOther, 2},
          engine::CapacityChanged{dram(kNode), 100}, engine::CapacityChanged{nvme(kNode), 50},
          engine::WorkerJoined{WorkerId(1), kNode}, engine::WorkerJoined{WorkerId(2), kOther}});
  }

  void order(const engine::Command& command) { next_.push_back(command); }
  // What the engine hears and the backend gets, by name.
  std::string tell(Instant now, std::vector<engine::Event> events = {}) {
    heard_.clear();
    std::string got;
    for (const engine::Command& command : injector_.step(now, events))
      got += name(log::describe(command));
    return heard_ + "| " + got;
  }
  const faults::FaultInjector& injector() const { return injector_; }
  std::string speeds() const { return speeds_; }

 private:
  static std::string name(const std::string& text) { return text.substr(0, text.find(' ')) + " "; }

  engine::Catalogues catalogues_;
  std::vector<engine::Command> next_;
  std::vector<engine::Command> ordered_;
  std::string heard_;
  std::string speeds_;
  faults::FaultInjector injector_;
};

faults::Fault fault(faults::Fault::Kind kind, double at, double lasts) {
  faults::Fault fault;
  fault.kind = kind;
  fault.at = s(at);
  fault.lasts = s(lasts) - s(0);
  fault.node = kNode;
  return fault;
}

engine::Read read(std::uint64_t id, Place from, Place to) {
  engine::Read order;
  order.request = {RequestId(id), 0};
  order.from = from;
  order.to = to;
  return order;
}

engine::Prepare prepare(std::uint64_t id, WorkerId worker, NodeId node) {
  engine::Prepare order;
  order.request = {RequestId(id), 0};
  order.worker = worker;
  order.node = node;
  return order;
}

}  // namespace

TEST_CASE("without faults all passes as it is") {
  Rig rig({});
  CHECK(rig.injector().due() == kNever);
  rig.order(read(1, kStore, dram(kNode)));
  CHECK(rig.tell(s(1), {engine::TimerFired{}}) == "TimerFired | Read ");
  CHECK(rig.tell(s(2), {engine::ReadDone{{RequestId(1), 0}, engine::Outcome::done, {}}}) ==
        "ReadDone | ");
  CHECK(rig.tell(s(3)) == "| ");
}

TEST_CASE("a lost node: what runs there is cancelled, not heard, and told late; it comes back") {
  faults::Fault lost = fault(faults::Fault::Kind::node_lost, 5, 10);
  lost.detected_after = std::chrono::seconds(2);
  Rig rig({lost});
  CHECK(rig.injector().due() == s(5));
  const NodeId ranks[] = {kNode, kOther};
  engine::JobJoined join;
  join.ranks = ranks;
  rig.order(read(1, kStore, dram(kNode)));
  rig.order(read(2, kStore, dram(kOther)));
  rig.order(prepare(3, WorkerId(1), kNode));
  CHECK(rig.tell(s(1), {join}) == "JobJoined | Read Read Prepare ");
  // Read and preparation, and the workers there.
  CHECK(rig.tell(s(5)) == "| Cancel Cancel SetWorkers ");
  CHECK(rig.speeds() == "0:1=0.00 ");
  CHECK(rig.injector().due() == s(7));
  // Its completions, its workers and its rank are not heard; those of others are.
  CHECK(rig.tell(s(6),
                 {engine::WorkerQuiesced{WorkerId(1)}, engine::BatchWanted{join.job, 0, 1},
                  engine::BatchWanted{join.job, 1, 1}, engine::ReadDone{{RequestId(1), 0}, {}, {}},
                  engine::ReadDone{{RequestId(2), 0}, {}, {}}}) == "BatchWanted ReadDone | ");
  // The engine does not know yet: what it orders there comes to nothing, and so does its recall.
  rig.order(prepare(4, WorkerId(1), kNode));
  rig.order(read(5, dram(kNode), dram(kOther)));
  rig.order(engine::SetWorkers{kNode, 3});
  CHECK(rig.tell(s(6.5), {engine::TimerFired{}}) == "TimerFired | ");
  rig.order(engine::Cancel{{RequestId(3), 0}});
  rig.order(engine::Cancel{{RequestId(4), 0}});
  CHECK(rig.tell(s(7)) == "NodeLost | ");
  CHECK(rig.injector().due() == s(15));
  CHECK(rig.tell(s(15)) == "NodeJoined CapacityChanged CapacityChanged | ");
  CHECK(rig.speeds() == "0:1=0.00 0:1=1.00 ");
  CHECK(rig.injector().due() == kNever);
  CHECK(rig.injector().struck()[0].struck);
  CHECK(rig.injector().struck()[0].until == s(15));
  CHECK(rig.tell(s(16), {engine::BatchWanted{join.job, 0, 1}}) == "BatchWanted | ");
}

TEST_CASE("who comes back before it was missed is missed when it comes back") {
  faults::Fault lost = fault(faults::Fault::Kind::node_lost, 5, 1);
  lost.detected_after = std::chrono::seconds(60);
  Rig rig({lost, fault(faults::Fault::Kind::node_lost, 5.5, 9)});
  CHECK(rig.tell(s(5)) == "| SetWorkers ");
  CHECK(rig.tell(s(5.5)) == "| ");  // nothing is left to lose
  CHECK(rig.tell(s(6)) == "NodeLost NodeJoined CapacityChanged CapacityChanged | ");
  CHECK(rig.injector().due() == kNever);
  CHECK(!rig.injector().struck()[1].struck);
}

TEST_CASE("a lost worker is lost, then quiet, then there again") {
  faults::Fault lost = fault(faults::Fault::Kind::worker_lost, 5, 10);
  lost.detected_after = std::chrono::seconds(1);
  lost.quiet_after = std::chrono::seconds(2);
  lost.count = 3;
  Rig rig({lost});
  rig.order(prepare(1, WorkerId(1), kNode));
  rig.order(prepare(2, WorkerId(2), kOther));
  rig.tell(s(1), {engine::TimerFired{}});
  CHECK(rig.tell(s(5)) == "| Cancel ");
  CHECK(rig.injector().struck()[0].parts == 1);  // there is no more than one on the node
  CHECK(rig.tell(s(5.5), {engine::PreparationDone{{RequestId(1), 0}, {}, {}},
                          engine::PreparationDone{{RequestId(2), 0}, {}, {}}}) ==
        "PreparationDone | ");
  CHECK(rig.tell(s(6)) == "WorkerLost | ");
  CHECK(rig.tell(s(8)) == "WorkerQuiesced | ");
  CHECK(rig.tell(s(15)) == "WorkerJoined | ");
  rig.order(prepare(3, WorkerId(1), kNode));
  CHECK(rig.tell(s(16), {engine::TimerFired{}}) == "TimerFired | Prepare ");
  // One that the backend has let go of meanwhile does not come back.
  Rig other({lost});
  other.tell(s(5));
  CHECK(other.tell(s(7)) == "WorkerLost | ");
  CHECK(other.tell(s(7.5), {engine::WorkerQuiesced{WorkerId(1)}}) == "WorkerQuiesced | ");
  CHECK(other.tell(s(15)) == "| ");
}

TEST_CASE("what is cut off waits: for the link, or until it has failed") {
  faults::Fault cut = fault(faults::Fault::Kind::cut_off, 5, 10);
  cut.cut_nodes = {kNode};
  cut.timeout = std::chrono::seconds(4);
  Rig rig({cut});
  const SampleId samples[] = {SampleId(3), SampleId(1)};
  engine::Read first = read(1, kStore, dram(kNode));
  first.samples = samples;
  rig.order(first);
  rig.order(read(2, kStore, dram(kOther)));
  rig.order(read(3, nvme(kNode), dram(kNode)));
  rig.tell(s(1), {engine::TimerFired{}});
  CHECK(rig.tell(s(5)) == "| Cancel ");
  rig.order(read(4, dram(kOther), dram(kNode)));
  CHECK(rig.tell(s(8), {engine::TimerFired{}}) == "TimerFired | ");
  CHECK(rig.injector().due() == s(9));
  CHECK(rig.tell(s(9)) == "ReadDone | ");
  rig.order(read(5, dram(kNode), dram(kOther)));
  CHECK(rig.tell(s(11.5), {engine::TimerFired{}}) == "TimerFired | ");
  CHECK(rig.tell(s(12)) == "ReadDone | ");
  CHECK(rig.tell(s(15)) == "| Read ");  // the last one goes on
  CHECK(rig.tell(s(15.5)) == "| ");     // and has not failed when it would have
  CHECK(rig.injector().struck()[0].parts == 3);
  CHECK(rig.tell(s(16), {engine::ReadDone{{RequestId(5), 0}, {}, {}}}) == "ReadDone | ");
}

TEST_CASE("a lost drive holds nothing, and what is read from it fails at once") {
  faults::Fault lost = fault(faults::Fault::Kind::drive_lost, 5, 10);
  lost.place = nvme(kNode);
  Rig rig({lost});
  rig.order(read(1, nvme(kNode), dram(kNode)));
  rig.tell(s(1), {engine::TimerFired{}});
  CHECK(rig.tell(s(5)) == "CapacityChanged ReadDone | Cancel ");
  rig.order(read(2, nvme(kNode), dram(kOther)));
  CHECK(rig.tell(s(6), {engine::TimerFired{}}) == "TimerFired | ");
  CHECK(rig.injector().due() == s(6));
  CHECK(rig.tell(s(6)) == "ReadDone | ");
  CHECK(rig.tell(s(15)) == "CapacityChanged | ");
}

TEST_CASE("what several faults slow down is slowed by all of them while they last") {
  faults::Fault one = fault(faults::Fault::Kind::slowed, 1, 4);
  one.hardware = 9;
  one.factor = 0.5;
  faults::Fault two = one;
  two.at = s(2);
  two.factor = 0.25;
  Rig rig({one, two});
  for (const double when : {1, 2, 5, 6}) rig.tell(s(when));
  CHECK(rig.speeds() == "2:9=0.50 2:9=0.12 2:9=0.25 2:9=1.00 ");
}

}  // namespace batchflow::test::fault_injector_test
