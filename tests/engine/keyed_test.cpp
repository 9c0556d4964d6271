// Keyed jobs, beside jobs that read samples in an order.
#include "core/order/keyed_epoch.h"
#include "policies/registry.h"
#include "tests/engine/small_world.h"

namespace batchflow::test::keyed_test {

namespace {

// Every sample twice, from the last to the first, and one of them ten times more.
std::vector<SampleId> keys_of(std::uint64_t samples) {
  std::vector<SampleId> keys;
  for (int time = 0; time < 2; ++time) {
    for (std::uint64_t key = samples; key-- > 0;) keys.emplace_back(key);
  }
  for (int time = 0; time < 10; ++time) keys.emplace_back(7);
  return keys;
}

WorldPlan plan_of(std::uint32_t jobs, Bytes dram) {
  WorldPlan plan;
  plan.jobs = jobs;
  plan.dram = dram;
  plan.keys = keys_of(plan.samples);
  return plan;
}

}  // namespace

TEST_CASE("a keyed job is given the samples it asked for, in that order, and no others") {
  for (const std::uint32_t at_once : {1, 3, 64}) {
    CAPTURE(at_once);
    WorldPlan plan = plan_of(0, 200'000);
    plan.keys_at_once = at_once;
    SmallWorld world(plan, policies::policy_list());
    run_by_the_rules(world);
    CHECK(world.answered() == 210);
    CHECK(world.deliveries() == 210);
  }
}

// Three jobs of two epochs have each sample six times, and the fourth has it twice and more. All is
// kept as it is decoded, so each is read once, and decoded once.
TEST_CASE("jobs and a keyed job read and decode each sample once between them") {
  WorldPlan plan = plan_of(3, 2'000'000);
  plan.config.policies.allocation = "encoded-first:forms=decoded";
  SmallWorld world(plan, policies::policy_list());
  run_by_the_rules(world);
  CHECK(world.answered() == 210);
  CHECK(world.samples_read() == 100);
  for (std::uint64_t sample = 0; sample < 100; ++sample)
    CHECK(world.decoded(SampleId(sample)) == 1);
}

TEST_CASE("a keyed job keeps to its credits where memory is scarce and workers fail") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    WorldPlan plan = plan_of(3, 220'000);
    plan.seed = seed;
    plan.failed_one_in = 20;
    plan.late_one_in = 20;
    plan.lost_one_in = 40;
    CAPTURE(seed);
    SmallWorld world(plan, policies::policy_list());
    run_by_the_rules(world);
    CHECK(world.answered() == 210);
  }
}

// More than order::kCorruptLeast, and more than any share of them that a job may meet.
TEST_CASE("a keyed job is given corrupt samples, each after two reads of its own") {
  WorldPlan plan = plan_of(0, 200'000);
  for (std::uint64_t sample = 0; sample < 100; sample += 3) plan.corrupt.insert(SampleId(sample));
  SmallWorld world(plan, policies::policy_list());
  run_by_the_rules(world);
  CHECK(world.answered() == 210);
  CHECK(world.refusals() == 0);
  CHECK(world.engine().counters().corrupt_samples == 0);  // of jobs
  CHECK(world.engine().counters().protocol_errors == 0);
}

TEST_CASE("a keyed job goes on when it has asked for as many as an epoch has") {
  WorldPlan plan;
  plan.jobs = 0;
  plan.dram = 200'000;
  plan.keys_at_once = 32;
  for (std::uint64_t i = 0; i < 2 * order::KeyedEpoch::kBlocks + 100; ++i)
    plan.keys.emplace_back(i * 37 % plan.samples);
  SmallWorld world(plan, policies::policy_list());
  REQUIRE(world.run(400'000));
  CHECK(world.answered() == plan.keys.size());
  CHECK(world.deliveries() == plan.keys.size());
  CHECK(world.engine().counters().protocol_errors == 0);
}

TEST_CASE("what a keyed job may not ask for is counted and changes nothing") {
  WorldPlan plan = plan_of(1, 200'000);
  plan.keys = {SampleId(3)};
  SmallWorld world(plan, policies::policy_list());
  const JobId keyed(1);
  const std::vector<SampleId> beyond{SampleId(100)};
  const std::vector<SampleId> many(5, SampleId(1));  // of four at once
  const std::vector<Bytes> sizes{1};
  const std::vector<SampleId> one{SampleId(1)};
  std::uint64_t at = 50;
  world.add(engine::SamplesWanted{keyed, 0, beyond, {}, {}}, at++);
  world.add(engine::SamplesWanted{keyed, 0, many, {}, {}}, at++);
  world.add(engine::SamplesWanted{keyed, 1, one, {}, {}}, at++);
  world.add(engine::SamplesWanted{keyed, 0, one, {}, sizes}, at++);
  world.add(engine::SamplesWanted{JobId(0), 0, one, {}, {}}, at++);
  REQUIRE(world.run());
  for (int i = 0; i < 100; ++i) world.step();
  CHECK(world.answered() == 1);
  CHECK(world.engine().counters().protocol_errors == 5);
}

TEST_CASE("a keyed job has one rank, batches of one, and no other order") {
  const std::vector<NodeId> one{NodeId(1)};
  const std::vector<NodeId> two{NodeId(1), NodeId(1)};
  const order::Position position(Order::live, 7, 100, 0);
  engine::JobJoined join;
  join.dataset = DatasetId(1);
  join.pipeline = PipelineId(1);
  join.order = Order::live;
  join.keyed = true;
  join.ranks = one;
  std::vector<engine::JobJoined> wrong(5, join);
  wrong[0].order = Order::strict;
  wrong[1].ranks = two;
  wrong[2].batch_samples = 2;
  wrong[3].position = &position;
  wrong[4].fills_from = 1;
  WorldPlan plan;
  plan.jobs = 0;
  SmallWorld world(plan, policies::policy_list());
  for (std::uint32_t i = 0; i < wrong.size(); ++i) {
    wrong[i].job = JobId(10 + i);
    world.add(wrong[i]);
  }
  for (int i = 0; i < 20; ++i) world.step();
  CHECK(world.refusals() == wrong.size());
  CHECK(world.engine().counters().protocol_errors == 0);
}

}  // namespace batchflow::test::keyed_test
