// What becomes of kept samples when no job reads them any more.
#include "policies/registry.h"
#include "tests/engine/small_world.h"

namespace batchflow::test::keeping_test {

namespace {

// One job has run to its end and left; all of its 100 samples are kept, as they are stored or
// decoded.
struct Left {
  explicit Left(const std::string& form = "encoded") : world(plan(form), policies::policy_list()) {
    run_by_the_rules(world);
    world.leave(0);
    settle();
  }
  static WorldPlan plan(const std::string& form) {
    WorldPlan plan;
    plan.config.policies.allocation = "encoded-first:forms=" + form;
    plan.dram = 1'000'000;
    plan.jobs = 1;
    return plan;
  }
  // Until nothing more comes of it.
  void settle() {
    for (int i = 0; i < 100; ++i) world.step();
  }
  std::uint64_t dropped_after(engine::Keep how) {
    const std::uint64_t before = world.samples_dropped();
    world.keep(how);
    settle();
    return world.samples_dropped() - before;
  }
  std::uint64_t dropped_by_room_of(Bytes bytes) {
    const std::uint64_t before = world.samples_dropped();
    world.add(engine::CapacityChanged{{NodeId(1), Tier::dram, 0}, bytes});
    settle();
    return world.samples_dropped() - before;
  }
  std::uint64_t dropped_where_decoded_take(Bytes bytes) {
    const std::uint64_t before = world.samples_dropped();
    world.measure_decoded(bytes);
    settle();
    return world.samples_dropped() - before;
  }
  SmallWorld world;
};

}  // namespace

TEST_CASE("samples stay when the last job leaves, and leave when they are dropped") {
  Left left;
  CHECK(left.world.samples_dropped() == 0);
  CHECK(left.dropped_after(engine::Keep::as_needed) == 0);
  CHECK(left.dropped_after(engine::Keep::dropped) == 100);
  CHECK(left.dropped_after(engine::Keep::dropped) == 0);
  CHECK(left.world.engine().counters().protocol_errors == 0);
}

TEST_CASE("what no job reads takes the room that is left, and no more") {
  Left left;
  CHECK(left.dropped_by_room_of(70'000) == 30);
  CHECK(left.dropped_by_room_of(1'000'000) == 0);
  CHECK(left.dropped_after(engine::Keep::dropped) == 70);
}

TEST_CASE("what is pinned is kept as if a job read it, until it is pinned no more") {
  Left left;
  CHECK(left.dropped_after(engine::Keep::always) == 0);
  CHECK(left.dropped_by_room_of(70'000) == 30);
  CHECK(left.dropped_after(engine::Keep::as_needed) == 0);
  CHECK(left.dropped_after(engine::Keep::dropped) == 70);
}

TEST_CASE("a dataset that is not known cannot be kept") {
  Left left;
  left.world.add(engine::DatasetKept{DatasetId(9), engine::Keep::always});
  left.settle();
  CHECK(left.world.engine().counters().protocol_errors == 1);
}

TEST_CASE(
    "decoded samples that turn out larger leave as far as there is no room, smaller ones stay") {
  Left left("decoded");
  CHECK(left.dropped_where_decoded_take(10'000) == 0);
  CHECK(left.dropped_where_decoded_take(20'000) == 50);
  CHECK(left.dropped_where_decoded_take(10'000) == 0);
  CHECK(left.dropped_where_decoded_take(20'001) == 1);
  CHECK(left.world.engine().counters().protocol_errors == 0);
}

TEST_CASE("a size that cannot be, or of what is not kept there, changes nothing") {
  Left left("decoded");
  CHECK(left.dropped_where_decoded_take(0) == 0);
  CHECK(left.dropped_where_decoded_take(Bytes{1} << 60) == 0);
  CHECK(left.world.engine().counters().protocol_errors == 2);
  const std::uint64_t stale = left.world.engine().counters().stale_completions;
  left.world.measure_decoded(20'000, DatasetId(9));
  left.world.add(engine::DecodedMeasured{DatasetId(1), ShareId(1000), 20'000});
  left.settle();
  CHECK(left.world.samples_dropped() == 0);
  CHECK(left.world.engine().counters().stale_completions == stale + 2);
}

TEST_CASE("jobs have each sample once while the size of decoded ones changes again and again") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    WorldPlan plan;
    plan.config.policies.allocation = "encoded-first:forms=decoded";
    plan.seed = seed;
    plan.resized_one_in = 3;
    plan.failed_one_in = 10;
    SmallWorld world(plan, policies::policy_list());
    run_by_the_rules(world);
  }
}

}  // namespace batchflow::test::keeping_test
