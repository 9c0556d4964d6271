// The whole engine with every policy of every kind: three jobs get each sample exactly once an
// epoch, no policy has a proposal refused, and the orders are the same again and in another
// process.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <iostream>

#include "tests/engine/small_world.h"
#include "tests/policies/random_seeds.h"
#include "tests/policies/tested_policies.h"

namespace batchflow::test::policies_test {

namespace {

// Each policy alone beside the defaults of the other kinds, as name and configuration.
template <class Check>
void for_each_policy(Check check) {
  for (const engine::PolicyEntry* entry : tested_policies().entries()) {
    for (const engine::PolicyChoice& choice : variants(*entry)) {
      const std::string name =
          fmt::format("{}={}", engine::policy_kind_name(entry->kind()), choice.text());
      CAPTURE(name);
      check(name, with_policy(entry->kind(), choice.text()));
    }
  }
}

WorldPlan plan_of(const engine::EngineConfig& config, std::uint64_t seed) {
  WorldPlan plan;
  plan.config = config;
  plan.seed = seed;
  return plan;
}

void deliver_all(std::uint64_t seed) {
  for_each_policy([&](const std::string&, const engine::EngineConfig& config) {
    WorldPlan plan = plan_of(config, seed);
    plan.dram = seed % 2 == 0 ? 150'000 : 400'000;
    SmallWorld world(plan, tested_policies());
    run_by_the_rules(world);
    CHECK(world.refusals() == 0);
    CHECK(world.repeats() == 0);
    CHECK(world.engine().counters().repeats == 0);
  });
}

}  // namespace

TEST_CASE("every policy delivers each sample exactly once an epoch") {
  for_seeds("test_engine", "every policy delivers*", 4, deliver_all);
}
TEST_SUITE("long") {
  TEST_CASE("every policy delivers each sample exactly once an epoch, many seeds") {
    for_seeds("test_engine", "every policy delivers*", 1000, deliver_all);
  }
}

TEST_SUITE("digests") {
  TEST_CASE("the same events get the same orders under every policy") {
    const bool print = std::getenv("BATCHFLOW_PRINT_DIGESTS") != nullptr;
    for_each_policy([&](const std::string& name, const engine::EngineConfig& config) {
      SmallWorld one(plan_of(config, 5), tested_policies());
      SmallWorld other(plan_of(config, 5), tested_policies());
      CHECK(one.run());
      CHECK(other.run());
      CHECK(one.digest() == other.digest());
      if (print) std::cout << fmt::format("digest {} {:016x}\n", name, one.digest());
    });
  }
}

}  // namespace batchflow::test::policies_test
