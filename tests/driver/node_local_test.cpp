// A sequence for each node: batches come from blocks of their own node, with the same promises as
// ever. The checker follows each block; here stand the counts, and that the checker notices.
#include <doctest/doctest.h>

#include "policies/registry.h"
#include "tests/driver/driver.h"

namespace batchflow::test::node_local_test {

namespace {

// Two nodes that prepare alike, with `ranks` on them.
Scenario two_nodes(std::uint64_t samples, std::vector<NodeId> ranks, bool node_local = true) {
  Scenario scenario = small_scenario();
  scenario.config.policies.scaling = "static:depth=6";
  scenario.nodes = {{NodeId(1), 2, 32 * 512, 0, {}}, {NodeId(2), 2, 32 * 512, 0, {}}};
  scenario.datasets[0].samples = samples;
  JobPlan job;
  job.ranks = std::move(ranks);
  job.batch_samples = 4;
  job.epochs = 3;
  job.node_local = node_local;
  scenario.jobs = {job};
  return scenario;
}

const std::vector<NodeId> kEven = {NodeId(1), NodeId(1), NodeId(2), NodeId(2)};

struct Run {
  Outcomes outcomes;
  std::uint64_t across = 0;  // samples copied from one node to the other
};

Run run(const Scenario& scenario) {
  Run result;
  Hooks hooks;
  hooks.commanded = [&](const engine::Command& command) {
    const auto* copy = std::get_if<engine::Transfer>(&command);
    if (copy == nullptr || copy->from.node == copy->to.node) return;
    result.across += copy->slice.to - copy->slice.from;
  };
  result.outcomes = Driver(scenario, policies::policy_list(), hooks).run();
  CHECK(result.outcomes.jobs_done == scenario.jobs.size());
  return result;
}

}  // namespace

TEST_CASE("where blocks divide evenly no node takes from another, and nothing crosses") {
  const Run local = run(two_nodes(512, kEven));
  CHECK(local.outcomes.counted_steps == 3 * 512 / 16);
  CHECK(local.outcomes.engine.preparations == 3 * 64);
  CHECK(local.outcomes.cut == 0);
  const Run shared = run(two_nodes(512, kEven, false));
  CHECK(shared.outcomes.counted_steps == 3 * 512 / 16);
  CHECK(local.across == 0);
  CHECK(shared.across > 1536 / 4);  // by chance it would be half
}

TEST_CASE("at the end nodes take from what is left of each other's blocks") {
  // 60 samples in 8 blocks, three ranks on one node and one on the other.
  const Run uneven = run(two_nodes(60, {NodeId(1), NodeId(1), NodeId(1), NodeId(2)}));
  CHECK(uneven.outcomes.counted_steps == 3 * 4);
  CHECK(uneven.outcomes.cut > 0);
  CHECK(uneven.outcomes.cut <= 3 * 16);
  CHECK(uneven.outcomes.fillers == 0);
}

TEST_CASE("one node: the job has what it would have without") {
  Scenario scenario = two_nodes(100, {NodeId(1), NodeId(1)});
  scenario.nodes.pop_back();
  const Run local = run(scenario);
  scenario.jobs[0].node_local = false;
  const Run shared = run(scenario);
  CHECK(local.outcomes.digest == shared.outcomes.digest);
}

TEST_CASE("a node is lost, the job goes on with others, or in a service that knows nothing") {
  for (const Fault::Kind kind : {Fault::Kind::node_lost, Fault::Kind::coordinator_lost,
                                 Fault::Kind::job_leaves, Fault::Kind::rank_lost}) {
    for (std::uint64_t step = 1; step <= 24; ++step) {
      Scenario scenario = two_nodes(100, kEven);
      Fault fault{};
      fault.kind = kind;
      fault.after_steps = step;
      fault.number = kind == Fault::Kind::node_lost ? 1 : 0;
      fault.later = ms(3);
      fault.batch_samples = static_cast<std::uint32_t>(1 + step % 7);
      fault.ranks.assign(1 + step % 3, NodeId(1));
      fault.ranks.push_back(NodeId(2));
      scenario.faults = {fault};
      scenario.from_promises = step % 2 == 0;
      CAPTURE(static_cast<int>(kind));
      CAPTURE(step);
      run(scenario);
    }
  }
}

namespace {

// A job on one node in a generation with lanes of one block, and a job on many nodes that comes to
// it.
Scenario one_and_many(std::uint32_t nodes, std::uint64_t samples) {
  Scenario scenario = small_scenario();
  scenario.config.policies.scaling = "static:depth=6";
  scenario.config.helper_nodes = 0;
  scenario.datasets[0].samples = samples;
  scenario.nodes[0].dram = 3 * 512;
  JobPlan one, many;
  one.ranks = {NodeId(1)};
  one.credits = 1;
  one.compute = ms(10);
  many.node_local = true;
  many.batch_samples = 3;
  many.joins = ms(30);
  many.epochs = 2;
  for (std::uint32_t node = 2; node <= nodes + 1; ++node) {
    scenario.nodes.push_back({NodeId(node), 1, 16 * 512, 0, {}});
    many.ranks.push_back(NodeId(node));
  }
  scenario.jobs = {one, many};
  return scenario;
}

}  // namespace

TEST_CASE("more nodes than a position holds lanes: some take from blocks of others") {
  for (const std::uint32_t nodes : {64u, 65u, 80u, 128u}) {
    CAPTURE(nodes);
    const Run out = run(one_and_many(nodes, 1024));
    CHECK(out.outcomes.refusals == 0);
    CHECK((out.outcomes.cut > 2 * 64) == (nodes > 64));
  }
  // It goes on elsewhere from the middle of an epoch, with as many lanes begun as there may be.
  for (std::uint64_t after = 10; after <= 80; after += 10) {
    Scenario scenario = one_and_many(80, 1024);
    Fault fault{};
    fault.kind = Fault::Kind::job_leaves;
    fault.number = 1;
    fault.when = ms(30) + us(100) * after;
    fault.later = ms(1);
    fault.batch_samples = 2;
    fault.ranks = scenario.jobs[1].ranks;
    if (after % 20 == 0) fault.ranks.resize(70);
    scenario.faults = {fault};
    CAPTURE(after);
    run(scenario);
  }
}

TEST_SUITE("long") {
  TEST_CASE("more nodes than a position holds blocks that are used in part") {
    Scenario scenario = one_and_many(1100, 1100 * 16);
    scenario.jobs.erase(scenario.jobs.begin());
    scenario.jobs[0].epochs = 1;
    const Run out = run(scenario);
    CHECK(out.outcomes.refusals == 0);
    CHECK(out.outcomes.cut > 0);
  }
}

TEST_CASE("an order that leaves no choice cannot give blocks to nodes") {
  for (const Order order : {Order::strict, Order::sequential, Order::weighted, Order::listed}) {
    Scenario scenario = two_nodes(64, kEven);
    scenario.jobs[0].order = order;
    std::optional<engine::Refusal> refused;
    Hooks hooks;
    hooks.commanded = [&](const engine::Command& command) {
      if (const auto* one = std::get_if<engine::Refuse>(&command)) refused = one->why;
    };
    Driver(scenario, policies::policy_list(), hooks).run();
    CHECK(refused == engine::Refusal::wrong_order);
  }
}

TEST_CASE("the checker notices batches of another node's blocks") {
  // Nothing but the names of the blocks that ranks of one node have: ids and counts are right.
  const auto run_with = [](bool node_local) {
    Hooks hooks;
    hooks.handed = [&](std::vector<Handed>& samples, Rank rank, std::uint64_t step) {
      if (step < 3) return;
      for (Handed& sample : samples) sample.block ^= rank < 2 ? 0 : 1;
    };
    Driver(two_nodes(512, kEven, node_local), policies::policy_list(), hooks).run();
  };
  CHECK_THROWS_AS(run_with(true), Violation);
  CHECK_NOTHROW(run_with(false));
}

TEST_CASE("the check of blocks and nodes, rule by rule") {
  const LocalityCheck::Block a{0, 0, 0, 0}, b{0, 0, 0, 1};
  const auto check = [&] {
    LocalityCheck one(16);
    one.began({NodeId(1), NodeId(2)});
    for (std::uint32_t i = 0; i < 4; ++i) one.count(0, a, 8, 16, i);
    return one;
  };
  // a rest of another's block, though one is left
  auto spoilt = check();
  CHECK_THROWS_AS(spoilt.count(1, a, 8, 16, 4), Violation);
  // a second block while the first is open
  spoilt = check();
  CHECK_THROWS_AS(spoilt.count(0, b, 8, 16, 0), Violation);
  // a sample before its turn
  spoilt = check();
  CHECK_THROWS_AS(spoilt.count(0, a, 8, 16, 5), Violation);
  // another's, though it has a block of its own
  auto right = check();
  for (std::uint32_t i = 0; i < 7; ++i) right.count(1, b, 8, 16, i);
  spoilt = right;
  CHECK_THROWS_AS(spoilt.count(1, a, 8, 16, 4), Violation);
  right.count(1, b, 8, 16, 7);
  right.count(1, a, 8, 16, 4);
  CHECK(right.cut() == 1);
  // A block of no node comes before a block of another node.
  spoilt = check();
  for (std::uint32_t i = 0; i < 4; ++i) spoilt.count(1, b, 8, 16, i);
  spoilt.began({NodeId(1), NodeId(2)});
  for (std::uint32_t i = 4; i < 8; ++i) spoilt.count(0, a, 8, 16, i);
  spoilt.count(0, b, 8, 16, 4);
  spoilt.count(1, b, 8, 16, 5);
  CHECK(spoilt.cut() == 1);
}

}  // namespace batchflow::test::node_local_test
