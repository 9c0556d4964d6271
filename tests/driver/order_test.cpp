// The rows of the test plan of the order rules that need a whole service: a rank, a node
// and the service (a new engine, fed the promise log) killed at each of fifty steps; corrupt
// samples with batches, ranks and blocks varied; a state saved at each step and restored elsewhere.
// All of them are exact, by ids: the checker counts each sample of each epoch.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "policies/registry.h"
#include "tests/driver/driver.h"

namespace batchflow::test::order_test {

namespace {

constexpr std::uint64_t kSteps = 50;

// Two nodes, two ranks on each of two, 64 samples, 8 steps an epoch: 56 steps.
Scenario two_nodes(Order order) {
  Scenario scenario = small_scenario();
  scenario.nodes[0].dram = 16 * 512;
  scenario.nodes.push_back({NodeId(2), 1, 16 * 512, 0, {}});
  scenario.timings.jitter = false;
  scenario.from_promises = true;
  JobPlan job;
  job.order = order;
  job.ranks = {NodeId(1), NodeId(2)};
  job.epochs = 7;
  job.scores_in_100 = order == Order::weighted ? 30 : 0;
  JobPlan other = job;  // that notices nothing
  other.ranks = {NodeId(1)};
  other.epochs = 4;
  scenario.jobs = {job, other};
  return scenario;
}

// What each step's ranks were handed, of steps in order, until the last that counts.
using Sequence = std::map<std::pair<std::uint64_t, Rank>, std::vector<Handed>>;

std::vector<std::pair<SampleId, SampleId>> in_order(const Sequence& sequence) {
  std::vector<std::pair<SampleId, SampleId>> samples;
  for (const auto& [key, batch] : sequence) {
    for (const Handed& one : batch) {
      if (!one.filler) samples.emplace_back(one.visited, one.used);
    }
  }
  return samples;
}

}  // namespace

TEST_CASE("a rank, a node or the service killed at each of fifty steps costs no sample") {
  for (const Order order : {Order::strict, Order::sequential, Order::relaxed, Order::weighted}) {
    for (const Fault::Kind kind : {Fault::Kind::rank_lost, Fault::Kind::node_lost,
                                   Fault::Kind::coordinator_lost, Fault::Kind::worker_lost}) {
      for (std::uint64_t step = 1; step <= kSteps; ++step) {
        Scenario scenario = two_nodes(order);
        Fault fault{};
        fault.kind = kind;
        fault.after_steps = step;
        fault.number = kind == Fault::Kind::node_lost ? 1 : 0;
        fault.later = ms(3);
        fault.batch_samples = 4;
        fault.ranks = scenario.jobs[0].ranks;
        scenario.faults = {fault};
        CAPTURE(static_cast<int>(order));
        CAPTURE(static_cast<int>(kind));
        CAPTURE(step);
        const Outcomes out = Driver(scenario, policies::policy_list()).run();
        CHECK(out.jobs_done == 2);
        const bool begins_again = order == Order::weighted && kind == Fault::Kind::coordinator_lost;
        if (!begins_again) CHECK(out.counted_steps == 7 * 8 + 4 * 16);
      }
    }
  }
}

TEST_CASE("one in a hundred corrupt: strict is the same for any batch, number of ranks and block") {
  std::vector<std::pair<SampleId, SampleId>> expected;
  for (const Bytes block : {64, 512, 2048, 8192}) {  // 1, 8, 32 and 128 samples
    for (const std::uint32_t batch : {1, 7, 25, 50}) {
      for (const std::size_t ranks : {1, 2, 5}) {
        Scenario scenario = small_scenario();
        scenario.config.block_bytes = block;
        scenario.config.corrupt_ratio_max = Ratio{Ratio::kWhole / 50};
        scenario.nodes[0].dram = 1 << 20;
        scenario.datasets[0].samples = 400;
        scenario.datasets[0].corrupt = {SampleId(3), SampleId(77), SampleId(200), SampleId(399)};
        JobPlan job;
        job.order = Order::strict;
        job.ranks.assign(ranks, NodeId(1));
        job.batch_samples = batch;
        job.epochs = 2;
        scenario.jobs = {job};
        Sequence sequence;
        Hooks hooks;
        hooks.handed = [&](std::vector<Handed>& samples, Rank rank, std::uint64_t step) {
          sequence[{step, rank}] = samples;
        };
        CAPTURE(block);
        CAPTURE(batch);
        CAPTURE(ranks);
        const Outcomes out = Driver(scenario, policies::policy_list(), hooks).run();
        CHECK(out.engine.corrupt_samples == 4);
        CHECK(out.replaced == 8);
        const auto samples = in_order(sequence);
        CHECK(samples.size() == 800);
        if (expected.empty()) expected = samples;
        CHECK(samples == expected);
      }
    }
  }
}

TEST_CASE(
    "a state saved at each step is restored at other sizes into a service that knows nothing") {
  for (const Order order : {Order::strict, Order::sequential, Order::relaxed, Order::weighted}) {
    for (const bool drop_last : {false, true}) {
      for (std::uint64_t step = 1; step <= 24; ++step) {
        Scenario scenario = two_nodes(order);
        scenario.from_promises = false;  // by the client's own state
        scenario.jobs.resize(1);
        scenario.jobs[0].epochs = 4;
        scenario.jobs[0].drop_last = drop_last;
        Fault lost{};
        lost.kind = Fault::Kind::coordinator_lost;
        lost.after_steps = step;
        lost.later = ms(1);
        Fault resized{};
        resized.kind = Fault::Kind::job_leaves;
        resized.after_steps = step + 2;
        resized.batch_samples = static_cast<std::uint32_t>(1 + step % 7);
        resized.ranks.assign(1 + step % 3, NodeId(1));
        resized.later = ms(1);
        scenario.faults = {lost, resized};
        CAPTURE(static_cast<int>(order));
        CAPTURE(step);
        CHECK(Driver(scenario, policies::policy_list()).run().jobs_done == 1);
      }
    }
  }
}

TEST_CASE("where nothing is shared each job has an order of its own, and keeps it") {
  // How many sequences of generations there are: numbers of two jobs are far apart.
  const auto sequences = [](bool shared, bool seeded, std::vector<Fault> faults) {
    Scenario scenario = two_nodes(Order::relaxed);
    scenario.config.share_streams = shared;
    scenario.jobs.resize(1);
    scenario.jobs[0].epochs = 3;
    scenario.jobs[0].has_shuffle_seed = seeded;
    scenario.jobs.push_back(scenario.jobs[0]);
    scenario.faults = std::move(faults);
    std::set<std::uint64_t> found;
    Hooks hooks;
    hooks.commanded = [&](const engine::Command& command) {
      if (const auto* order = std::get_if<engine::Prepare>(&command))
        found.insert(order->lineage.name.generation >> 16);
    };
    CHECK(Driver(scenario, policies::policy_list(), hooks).run().jobs_done == 2);
    return found.size();
  };
  CHECK(sequences(true, false, {}) == 1);
  CHECK(sequences(false, false, {}) == 2);
  CHECK(sequences(false, true, {}) == 1);
  for (const Fault::Kind kind :
       {Fault::Kind::job_leaves, Fault::Kind::coordinator_lost, Fault::Kind::job_resized}) {
    Fault fault{};
    fault.kind = kind;
    fault.after_steps = 9;
    fault.later = ms(3);
    fault.batch_samples = 3;
    fault.ranks = {NodeId(1)};
    CAPTURE(static_cast<int>(kind));
    CHECK(sequences(false, false, {fault}) == 2);
  }
}

}  // namespace batchflow::test::order_test
