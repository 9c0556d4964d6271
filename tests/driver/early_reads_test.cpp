// Samples that are read before anything requests them, on nodes to which nothing else is read.
#include <doctest/doctest.h>

#include <map>

#include "tests/driver/canaries.h"
#include "tests/driver/driver.h"

namespace batchflow::test::early_reads_test {

namespace {

constexpr std::uint64_t kSamples = 1000;
constexpr Bytes kSlot = 64;            // of a sample
constexpr Bytes kStaging = 8 * kSlot;  // what is read lands in it
constexpr std::uint32_t kEpochs = 3;

// A job that computes far longer than its data takes to make, on nodes that keep `kept` samples
// beside eight blocks each.
Scenario slow_job(Order order, Slots kept, std::size_t nodes = 1) {
  Scenario scenario = small_scenario();
  scenario.config.staging_bytes = kStaging;
  scenario.config.policies.allocation = "encoded-first:forms=encoded";
  scenario.config.policies.eviction.fill("nopfs");
  scenario.config.policies.scaling = "static:depth=2";
  scenario.datasets[0].samples = kSamples;
  scenario.datasets[0].bytes = kSlot;
  scenario.nodes.clear();
  for (std::uint32_t node = 1; node <= nodes; ++node) {
    scenario.nodes.push_back({NodeId(node), 2, 8 * 512 + kStaging + kept * kSlot, 0, {}});
  }
  JobPlan job;
  job.order = order;
  job.ranks = {NodeId(1)};
  job.batch_samples = 8;
  job.epochs = kEpochs;
  job.compute = ms(5);
  scenario.jobs = {job};
  return scenario;
}

struct Reads {
  std::map<std::uint64_t, std::uint32_t> times;  // by sample, from the store
  std::uint64_t early = 0;
  std::uint64_t all = 0;
};

Reads reads_of(const Scenario& scenario) {
  Reads reads;
  Hooks hooks;
  hooks.commanded = [&](const engine::Command& command) {
    const auto* read = std::get_if<engine::Read>(&command);
    if (read == nullptr || read->from.tier != Tier::store) return;
    for (const SampleId sample : read->samples) ++reads.times[sample.value];
    reads.all += read->samples.size();
  };
  const Outcomes out = Driver(scenario, policies::policy_list(), hooks).run();
  CHECK(out.jobs_done == 1);
  CHECK(out.counted_steps == kEpochs * kSamples / 8);
  CHECK(out.engine.protocol_errors == 0);
  CHECK(out.engine.refused_proposals == 0);
  reads.early = out.engine.samples_read_early;
  return reads;
}

}  // namespace

TEST_CASE("where all samples fit, most are read before they are requested, and each is read once") {
  for (const Order order : {Order::strict, Order::relaxed, Order::sequential}) {
    for (const std::size_t nodes : {1u, 2u, 3u}) {
      CAPTURE(static_cast<int>(order));
      CAPTURE(nodes);
      const Reads reads = reads_of(slow_job(order, kSamples + 100, nodes));
      CHECK(reads.all == kSamples);
      CHECK(reads.times.size() == kSamples);
      CHECK(reads.early > kSamples / 2);
    }
  }
}

TEST_CASE("where a part fits, as much is read as if nothing were read early") {
  for (const Order order : {Order::strict, Order::relaxed}) {
    CAPTURE(static_cast<int>(order));
    Scenario scenario = slow_job(order, kSamples / 2);
    const Reads early = reads_of(scenario);
    scenario.config.policies.eviction.fill("minio");
    const Reads late = reads_of(scenario);
    CHECK(early.early > 0);
    CHECK(late.early == 0);
    CHECK(early.all == late.all);
  }
}

TEST_CASE("a strict job's next epoch is read as far as there is room when this one is over") {
  // A cache that grows when all blocks of the first epoch are made has nothing to request before
  // the next one. Its samples come in while the last batches are trained on.
  Scenario scenario = slow_job(Order::strict, 16);
  Fault grows{};
  grows.kind = Fault::Kind::capacity;
  grows.when = ms(400);
  grows.bytes = 8 * 512 + kStaging + 2 * kSamples * kSlot;
  scenario.faults = {grows};
  const Reads reads = reads_of(scenario);
  CHECK(reads.early > kSamples / 2);
  for (const auto& [sample, times] : reads.times) CHECK(times <= 2);
}

TEST_CASE("what is read early may fail, and the node may be lost meanwhile") {
  for (std::uint64_t step = 1; step <= 40; ++step) {
    CAPTURE(step);
    Scenario scenario = slow_job(Order::strict, kSamples, 2);
    Fault fault{};
    fault.kind = step % 2 == 0 ? Fault::Kind::node_lost : Fault::Kind::coordinator_lost;
    fault.after_steps = step;
    fault.number = 1;
    fault.later = ms(3);
    scenario.faults = {fault};
    scenario.failures.read = 100;
    scenario.heal = ms(200);
    const Outcomes out = Driver(scenario, policies::policy_list()).run();
    CHECK(out.jobs_done == 1);
    CHECK(out.engine.samples_read_early > 0);
  }
}

// ---- the node that prepares, and the policy of a drive

namespace {

class LastNode : public engine::DispatchPolicy {
 public:
  static inline std::size_t asked = 0;

  explicit LastNode(const engine::PolicyContext&) {}
  std::size_t next(const engine::DispatchView&) override { return 0; }
  bool chooses_nodes() const override { return true; }
  std::size_t choose_node(const engine::NodesView& view) override {
    ++asked;
    CHECK(view.candidates.size() >= 2);
    for (const engine::NodeCandidate& one : view.candidates) {
      CHECK(one.ranks == 1);
      CHECK(one.workers == 2);
      CHECK(one.kept >= 0);
      CHECK(one.kept <= 1);
    }
    return view.candidates.size() - 1;
  }
};
const engine::PolicyEntry kLastNode{"last-node", "",
                                    &make_canary<engine::DispatchPolicy, LastNode>};

class NoSuchNode final : public LastNode {
 public:
  using LastNode::LastNode;
  std::size_t choose_node(const engine::NodesView& view) override { return view.candidates.size(); }
};
const engine::PolicyEntry kNoSuchNode{"no-such-node", "",
                                      &make_canary<engine::DispatchPolicy, NoSuchNode>};

class NotesWhere final : public KeepsNothing {
 public:
  static inline std::map<std::pair<Form, Tier>, int> made;

  explicit NotesWhere(const engine::EvictionContext& context) {
    CHECK(context.dataset == DatasetId(1));
    ++made[{context.form, context.tier}];
  }
};
const engine::PolicyEntry kNotesWhere{"notes-where", "", &make_eviction_canary<NotesWhere>};

}  // namespace

TEST_CASE("a dispatch policy may choose the node that makes a block") {
  const Canaries canaries{&kLastNode, &kNoSuchNode};
  const auto made_on = [&](const char* dispatch, engine::EngineCounters* counters = nullptr) {
    Scenario scenario = slow_job(Order::relaxed, 10 * kSamples, 2);
    scenario.config.policies.allocation = "proportional";
    scenario.jobs[0].ranks = {NodeId(1), NodeId(2)};
    scenario.config.policies.dispatch = dispatch;
    std::map<std::uint32_t, std::uint64_t> made;
    Hooks hooks;
    hooks.commanded = [&](const engine::Command& command) {
      if (const auto* one = std::get_if<engine::Prepare>(&command)) ++made[one->node.value];
    };
    const Outcomes out = Driver(scenario, canaries.list(), hooks).run();
    CHECK(out.jobs_done == 1);
    if (counters != nullptr) *counters = out.engine;
    return made;
  };
  std::map<std::uint32_t, std::uint64_t> usual = made_on("fifo");
  CHECK(usual[1] > 100);
  CHECK(usual[2] > 100);
  LastNode::asked = 0;
  std::map<std::uint32_t, std::uint64_t> last = made_on("last-node");
  CHECK(LastNode::asked > 100);
  CHECK(last[2] > 10 * last[1]);
  engine::EngineCounters counters;
  CHECK(made_on("no-such-node", &counters) == usual);
  CHECK(counters.refused_proposals > 100);
}

TEST_CASE(
    "samples on a drive have an eviction policy of their own, and policies see where they are") {
  const Canaries canaries{&kNotesWhere};
  Scenario scenario = slow_job(Order::relaxed, 100);
  scenario.config.policies.eviction.fill("minio");
  scenario.config.policies.eviction[engine::kOnDrives] = "notes-where";
  scenario.nodes[0].nvme = 200 * kSlot;
  NotesWhere::made.clear();
  CHECK(Driver(scenario, canaries.list()).run().jobs_done == 1);
  CHECK(NotesWhere::made.size() == 1);
  CHECK(NotesWhere::made.contains({Form::encoded, Tier::nvme}));
  // A change of the one leaves the other.
  NotesWhere::made.clear();
  scenario.config.policies.eviction.fill("minio");
  Fault change{};
  change.kind = Fault::Kind::policy;
  change.when = ms(20);
  change.text = "eviction.encoded=notes-where";
  scenario.faults = {change};
  CHECK(Driver(scenario, canaries.list()).run().jobs_done == 1);
  CHECK(NotesWhere::made.size() == 1);
  CHECK(NotesWhere::made.contains({Form::encoded, Tier::dram}));
}

}  // namespace batchflow::test::early_reads_test
