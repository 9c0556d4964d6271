// What nodes have kept from before an engine began, as when another coordinator takes over.
#include "policies/registry.h"
#include "tests/engine/small_world.h"

namespace batchflow::test::kept_before_test {

namespace {

constexpr std::uint64_t kSamples = 100;

// One job over a node that says at the start that it keeps the first samples.
struct Before {
  explicit Before(std::uint64_t kept, Bytes dram = 1'000'000)
      : world(plan(dram), policies::policy_list()) {
    for (std::uint64_t i = 0; i < kept; ++i) samples.emplace_back(i);
    world.add(engine::SamplesKept{NodeId(1), DatasetId(1), 0, samples});
  }
  static WorldPlan plan(Bytes dram) {
    WorldPlan plan;
    plan.config.policies.allocation = "encoded-first:forms=encoded";
    plan.samples = kSamples;
    plan.dram = dram;
    plan.jobs = 1;
    return plan;
  }
  std::vector<SampleId> samples;
  SmallWorld world;
};

}  // namespace

TEST_CASE("what a node has kept is not read again") {
  for (const std::uint64_t kept : {0, 1, 60, 100}) {
    CAPTURE(kept);
    Before before(kept);
    run_by_the_rules(before.world);
    CHECK(before.world.samples_read() == kSamples - kept);
    CHECK(before.world.adoptions() == (kept > 0 ? 1 : 0));
    CHECK(before.world.engine().counters().items_adopted == kept);
    CHECK(before.world.samples_dropped() == 0);
  }
}

TEST_CASE("what has no room is dropped, and read again") {
  Before before(kSamples, 100'000);
  run_by_the_rules(before.world);
  const std::uint64_t adopted = before.world.engine().counters().items_adopted;
  CHECK(adopted > 0);
  CHECK(adopted < kSamples);
  CHECK(before.world.samples_dropped() >= kSamples - adopted);
  CHECK(before.world.samples_read() >= kSamples - adopted);
}

TEST_CASE("a node that says what cannot be is not believed") {
  const std::vector<SampleId> some{SampleId(3)}, beyond{SampleId(kSamples)}, odd{SampleId(5)};
  const std::vector<SampleId> too_many(engine::kSamplesKeptMost + 1);
  const std::vector<SampleId> all(kSamples);
  const std::vector<engine::SamplesKept> wrong{
      {NodeId(9), DatasetId(1), 0, some},   {NodeId(1), DatasetId(9), 0, some},
      {NodeId(1), DatasetId(1), 0, beyond}, {NodeId(1), DatasetId(1), 2, odd},
      {NodeId(1), DatasetId(1), 200, some}, {NodeId(1), DatasetId(1), 0, too_many}};
  Before before(0);
  for (const engine::SamplesKept& one : wrong) before.world.add(one);
  before.world.add(engine::SamplesKept{NodeId(1), DatasetId(1), 0, all});
  before.world.add(engine::SamplesKept{NodeId(1), DatasetId(1), 0, some});  // more than there are
  REQUIRE(before.world.run());
  CHECK(before.world.engine().counters().protocol_errors == wrong.size() + 1);
}

}  // namespace batchflow::test::kept_before_test
