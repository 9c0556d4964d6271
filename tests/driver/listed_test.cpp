// Listed orders on several nodes: what the cluster keeps is read from the store once, whichever
// node asks for it, and what a lost node kept is read again.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "core/engine/placement.h"
#include "policies/registry.h"
#include "tests/driver/driver.h"

namespace batchflow::test::listed_test {

namespace {

constexpr std::uint64_t kSamples = 200;
constexpr Bytes kBytes = 64;  // of a sample

// Nodes with room for all samples on each, and jobs on the first of them that ask for samples at
// random.
Scenario lists(std::uint32_t nodes, std::uint32_t jobs) {
  Scenario scenario = small_scenario();
  scenario.config.policies.allocation = "encoded-first:forms=encoded";
  scenario.config.policies.eviction.fill("minio");
  scenario.datasets[0].samples = kSamples;
  scenario.datasets[0].bytes = kBytes;
  scenario.nodes.clear();
  for (std::uint32_t i = 1; i <= nodes; ++i)
    scenario.nodes.push_back({NodeId(i), 2, 4 * kSamples * kBytes, 0, {}});
  for (std::uint32_t i = 1; i <= jobs; ++i) {
    JobPlan job;
    job.order = Order::listed;
    job.batch_samples = 8;
    job.listed_batches = 100;
    job.ranks = {NodeId(i)};
    scenario.jobs.push_back(job);
  }
  return scenario;
}

struct Ran {
  std::vector<std::uint32_t> times = std::vector<std::uint32_t>(kSamples);  // read from the store
  std::set<std::uint64_t> asked;
  std::uint64_t fetched = 0;
  std::uint64_t storage_failures = 0;  // jobs that were refused for them
  Outcomes out;
};
Ran run(const Scenario& scenario) {
  Ran ran;
  Hooks hooks;
  hooks.before_step = [&](Instant, std::span<const engine::Event> events) {
    for (const engine::Event& event : events) {
      const auto* wanted = std::get_if<engine::SamplesWanted>(&event);
      if (wanted == nullptr) continue;
      for (const SampleId sample : wanted->samples) ran.asked.insert(sample.value);
    }
  };
  hooks.commanded = [&](const engine::Command& command) {
    const auto* refuse = std::get_if<engine::Refuse>(&command);
    if (refuse != nullptr && refuse->why == engine::Refusal::storage_failed) ++ran.storage_failures;
    const auto* read = std::get_if<engine::Read>(&command);
    if (read == nullptr) return;
    if (read->from.tier != Tier::store) {
      ran.fetched += read->samples.size();
      return;
    }
    for (const SampleId sample : read->samples) ++ran.times.at(sample.value);
  };
  ran.out = Driver(scenario, policies::policy_list(), hooks).run();
  CHECK(ran.storage_failures == 0);
  return ran;
}

Fault lost_node(std::uint64_t number, Duration when, Duration back_after) {
  Fault fault{};
  fault.kind = Fault::Kind::node_lost;
  fault.number = number;
  fault.when = when;
  fault.later = back_after;
  return fault;
}

}  // namespace

TEST_CASE("lists on several nodes read each sample from the store once") {
  for (const std::uint32_t nodes : {1u, 2u, 3u, 4u}) {
    CAPTURE(nodes);
    const Ran ran = run(lists(nodes, nodes));
    CHECK(ran.out.jobs_done == nodes);
    CHECK(ran.out.refusals == 0);
    for (std::uint64_t i = 0; i < kSamples; ++i) CHECK(ran.times[i] == ran.asked.count(i));
    CHECK((ran.fetched > 0) == (nodes > 1));
  }
}

TEST_CASE("the loss of a node costs lists what it kept, and nothing else") {
  Scenario scenario = lists(3, 2);
  scenario.faults = {lost_node(2, ms(60), std::chrono::hours(1))};
  const Ran ran = run(scenario);
  CHECK(ran.out.jobs_done == 2);
  CHECK(ran.out.refusals == 0);
  const engine::Placement homes(0, std::vector{NodeId(1), NodeId(2), NodeId(3)});
  std::uint64_t again = 0;
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    const bool was_there = homes.owner(scenario.datasets[0].version, SampleId(i)) == NodeId(3);
    CHECK(ran.times[i] <= (was_there ? 2 : 1));
    again += ran.times[i] == 2 ? 1 : 0;
  }
  CHECK(again > kSamples / 5);
}

TEST_CASE("lists go on while nodes with other lists come and go, and reads fail") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Scenario scenario = lists(3, 3);
    scenario.seed = seed;
    scenario.failures.read = 200;
    scenario.heal = ms(40);
    scenario.config.read_attempts = 20;
    const auto shift = static_cast<std::int64_t>(seed);
    scenario.faults = {lost_node(1, ms(10 + shift), ms(30)), lost_node(2, ms(50 + shift), ms(30)),
                       lost_node(0, ms(90 + shift), ms(30))};
    const Ran ran = run(scenario);
    CHECK(ran.out.jobs_done == 3);
  }
}

}  // namespace batchflow::test::listed_test
