// When a worker is late, a second one makes the block too, and the first result is used. What ranks
// read is whole whichever was first. No slot is given away while the slower worker may still write
// it, and nothing is kept of it in the end.
#include <doctest/doctest.h>

#include "policies/registry.h"
#include "tests/engine/small_world.h"
#include "tests/policies/random_seeds.h"

namespace batchflow::test::second_worker_test {

namespace {

WorldPlan plan_of(std::uint64_t seed) {
  WorldPlan plan;
  plan.seed = seed;
  plan.samples = 1000;
  plan.epochs = 8;
  plan.dram = seed % 4 == 0 ? 500'000 : 3'000'000;
  // What goes into a cache of decoded samples is made by one worker alone.
  plan.config = with_policy(engine::PolicyKind::allocation, "proportional:forms=encoded+prepared");
  plan.late_one_in = 150;  // a p99 is not moved by them
  return plan;
}

void deliver_in_spite(std::uint64_t seed) {
  WorldPlan plan = plan_of(seed);
  plan.config.read_attempts = 50;
  if (seed % 2 == 0) plan.failed_one_in = 20;
  if (seed % 3 == 0) plan.lost_one_in = 25;
  if (seed % 5 == 0) plan.config.policies.allocation = "proportional";
  SmallWorld world(plan, policies::policy_list());
  REQUIRE(world.run(200'000));
  CHECK(world.refusals() == 0);
  CHECK(world.repeats() == 0);
  CHECK(world.engine().counters().repeats == 0);
}

}  // namespace

TEST_CASE("a late block is given to a second worker") {
  SmallWorld world(plan_of(1), policies::policy_list());
  REQUIRE(world.run());
  const engine::EngineCounters with = world.engine().counters();
  CHECK(with.second_workers > 0);
  CHECK(with.protocol_errors == 0);
  // The losers' slots came back: what they wrote was dropped, and no report was left over.
  while (world.step()) {
  }
  CHECK(world.engine().counters().stale_completions == 0);

  WorldPlan never = plan_of(1);
  never.config.late_after_p99 = 0;
  SmallWorld patient(never, policies::policy_list());
  REQUIRE(patient.run());
  CHECK(patient.engine().counters().second_workers == 0);
}

TEST_CASE("late and failed and lost preparations") {
  for_seeds("test_engine", "late and failed*", sanitized_share(10), deliver_in_spite);
}
TEST_SUITE("long") {
  TEST_CASE("late and failed and lost preparations: many seeds") {
    for_seeds("test_engine", "late and failed*", 3000, deliver_in_spite);
  }
}

}  // namespace batchflow::test::second_worker_test
