// Which jobs are let in, and that a wrong answer is noticed: by hand, in the least memory there can
// be.
#include <doctest/doctest.h>

#include "policies/registry.h"
#include "tests/driver/driver.h"

namespace batchflow::test::room_test {

namespace {

constexpr Bytes kBlock = 512;
constexpr Bytes kStored = 100;  // a sample, where it is read

JobPlan one_rank(Order order, NodeId node = NodeId(1), Duration joins = {}) {
  JobPlan job;
  job.order = order;
  job.ranks = {node};
  job.joins = joins;
  job.listed_batches = 10;
  return job;
}

Scenario two_nodes(Bytes second) {
  Scenario scenario = small_scenario();
  scenario.nodes[0].dram = 32 * kBlock;
  scenario.nodes.push_back({NodeId(2), 2, second, 0, {}});
  return scenario;
}

Outcomes run(const Scenario& scenario) {
  return Driver(scenario, policies::policy_list()).run();
}

// Whether it is noticed that the first answer to a join is another one.
bool noticed(const Scenario& scenario, const engine::Command& answer) {
  Hooks hooks;
  bool spoilt = false;
  hooks.spoil = [&](std::vector<engine::Command>& commands) {
    for (engine::Command& command : commands) {
      const bool is_answer = std::holds_alternative<engine::Admit>(command) ||
                             std::holds_alternative<engine::Refuse>(command);
      if (!spoilt && is_answer) command = answer;
      spoilt = spoilt || is_answer;
    }
  };
  try {
    Driver(scenario, policies::policy_list(), hooks).run_for(100);
  } catch (const Violation& violation) {
    CAPTURE(violation.what());
    return spoilt;
  }
  return false;
}

}  // namespace

TEST_CASE("a listed job needs no block, and is let in whatever workers there are") {
  Scenario scenario = two_nodes(32 * kBlock);
  scenario.jobs = {one_rank(Order::listed, NodeId(1), ms(50))};
  CHECK(run(scenario).refusals == 0);
  // With the memory of both nodes promised to others, too.
  scenario.nodes[0].dram = scenario.nodes[1].dram = 3 * kBlock;
  for (const NodeId node : {NodeId(1), NodeId(2)}) {
    scenario.jobs.push_back(one_rank(Order::strict, node));
    scenario.jobs.back().epochs = 10;
    scenario.jobs.back().has_shuffle_seed = true;
    scenario.jobs.back().shuffle_seed = node.value;
    scenario.jobs.back().credits = 2;
  }
  const Outcomes out = run(scenario);
  CHECK(out.refusals == 0);
  CHECK(out.jobs_done == 3);
}

TEST_CASE("a job that other nodes may not help waits for workers of its own") {
  Scenario scenario = two_nodes(32 * kBlock);
  scenario.config.helper_nodes = 0;
  scenario.nodes[1].joins = ms(20);  // the first has its workers by then
  scenario.jobs = {one_rank(Order::relaxed, NodeId(2), ms(20))};
  CHECK(run(scenario).refusals == 0);
}

TEST_CASE("a node that is too small for a block is not chosen to help") {
  Scenario scenario = two_nodes(32 * kBlock);
  scenario.config.helper_nodes = 1;
  scenario.nodes[0].cores = 0;
  scenario.jobs = {one_rank(Order::relaxed)};
  for (std::uint32_t node = 3; node < 10; ++node) {
    scenario.nodes.push_back({NodeId(node), 2, kBlock + kStored - 1, 0, {}});
  }
  Outcomes out = run(scenario);
  CHECK(out.refusals == 0);
  CHECK(out.jobs_done == 1);
  // One that becomes large enough while the job waits is.
  scenario.nodes[1].dram = kBlock;
  Fault grows{};
  grows.kind = Fault::Kind::capacity;
  grows.when = ms(5);
  grows.number = 1;
  grows.bytes = 32 * kBlock;
  scenario.faults = {grows};
  out = run(scenario);
  CHECK(out.jobs_done == 1);
}

TEST_CASE("a stream without jobs is promised no memory of nodes that were to help it") {
  Scenario scenario = two_nodes(3 * kBlock + kStored);
  scenario.nodes[0].cores = 1;
  scenario.timings.prepare = ms(40);
  scenario.timings.jitter = false;
  // The first leaves in the middle of its epoch, while blocks are made for it.
  JobPlan first = one_rank(Order::relaxed);
  first.user = 2;
  first.compute = us(10);
  JobPlan second = one_rank(Order::relaxed, NodeId(2), ms(200));
  second.ranks.push_back(NodeId(2));
  second.credits = 1;
  scenario.jobs = {first, second};
  Fault leaves{};
  leaves.kind = Fault::Kind::job_leaves;
  leaves.when = ms(190);
  leaves.later = ms(2000);
  scenario.faults = {leaves};
  const Outcomes out = run(scenario);
  CHECK(out.jobs_done == 2);
  CHECK(out.refusals == 0);
}

TEST_CASE("an answer that memory does not bear out is noticed") {
  Scenario scenario = small_scenario();
  scenario.nodes[0].dram = 2 * kBlock + kStored;
  scenario.jobs = {one_rank(Order::relaxed, NodeId(1), ms(5))};
  CHECK(!noticed(scenario, engine::Admit{JobId(1), StreamId(0), 1, 8, 0}));
  CHECK(noticed(scenario, engine::Admit{JobId(1), StreamId(0), 2, 8, 0}));
  CHECK(noticed(scenario, engine::Refuse{JobId(1), engine::Refusal::no_room, 10'000, 0}));
  scenario.nodes[0].dram -= 1;
  CHECK(!noticed(scenario, engine::Refuse{JobId(1), engine::Refusal::no_room, 1024, 1023}));
  CHECK(noticed(scenario, engine::Admit{JobId(1), StreamId(0), 1, 8, 0}));
  scenario.jobs[0].order = Order::listed;
  CHECK(noticed(scenario, engine::Refuse{JobId(1), engine::Refusal::no_room, 10'000, 0}));
}

TEST_CASE("blocks are as large as the order rules say") {
  engine::EngineConfig config;
  config.block_bytes = 1000;
  CHECK(block_samples_of(config, 1000, 1 << 20) == 1);
  CHECK(block_samples_of(config, 667, 1 << 20) == 1);
  CHECK(block_samples_of(config, 666, 1 << 20) == 2);
  CHECK(block_samples_of(config, 100, 1 << 20) == 8);
  CHECK(block_samples_of(config, 83, 1 << 20) == 16);
  CHECK(block_samples_of(config, 0, 1 << 20) == 1024);
  CHECK(block_samples_of(config, 100, 5) == 5);
  config.block_bytes = Bytes{1} << 40;
  CHECK(block_samples_of(config, 1, 1 << 20) == 4096);
  config.blocks_least = 8;
  CHECK(block_samples_of(config, 1, 1024) == 128);
  CHECK(block_samples_of(config, 1, 100) == 16);
}

}  // namespace batchflow::test::room_test
