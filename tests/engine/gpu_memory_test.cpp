// Samples that are kept decoded in the memory of GPUs.
#include "policies/make.h"
#include "policies/registry.h"
#include "tests/engine/small_world.h"
#include "tests/engine/two_nodes.h"

namespace batchflow::test::gpu_memory_test {

namespace {

// Memory is for blocks alone, and the memory of GPUs for what is decoded.
class BlocksAndGpus final : public engine::AllocationPolicy {
 public:
  explicit BlocksAndGpus(const engine::PolicyContext&) {}
  void allocate(const engine::PlaceView& place, std::span<Slots> slots) override {
    Bytes left = place.capacity_bytes;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const engine::ShareView& share = place.shares[i];
      const bool kept = (share.form == Form::decoded) == (place.place.tier == Tier::gpu);
      if (!kept || share.form == Form::encoded) continue;
      slots[i] = std::min(share.slots_all, left / share.slot_bytes);
      left -= slots[i] * share.slot_bytes;
    }
  }
};
constexpr engine::PolicyEntry kBlocksAndGpus{
    "blocks-and-gpus", "For tests.",
    &policies::make_policy<engine::AllocationPolicy, BlocksAndGpus>};

const engine::PolicyList& policy_list() {
  static const engine::PolicyList list = [] {
    engine::PolicyList all(policies::policy_list().entries());
    all.add(kBlocksAndGpus);
    return all;
  }();
  return list;
}

// 96 samples of 1000 bytes in 12 blocks of 8, prepared for one job.
WorldPlan plan(std::vector<Bytes> gpus, const std::string& eviction) {
  WorldPlan plan;
  plan.samples = 96;
  plan.epochs = 4;
  plan.jobs = 1;
  plan.strict = true;
  plan.gpus = std::move(gpus);
  plan.config.policies.allocation = "blocks-and-gpus";
  plan.config.policies.eviction[engine::kOnGpus] = eviction;
  return plan;
}

}  // namespace

TEST_CASE("what GPUs keep decoded is decoded once, and read from there in every later epoch") {
  SmallWorld world(plan({32'000, 16'000}, "minio"), policy_list());
  run_by_the_rules(world);
  CHECK(world.kept_on(0) == 32);
  CHECK(world.kept_on(1) == 16);
  CHECK(world.read_from_gpus() == 3 * 48);
  // Nothing else is kept.
  CHECK(world.samples_read() == 4 * 96 - 3 * 48);
  std::uint64_t once = 0;
  for (std::uint64_t sample = 0; sample < 96; ++sample) {
    const std::uint64_t times = world.decoded(SampleId(sample));
    once += times == 1 ? 1 : 0;
    CHECK((times == 1 || times == 4));
  }
  CHECK(once == 48);
}

TEST_CASE("each GPU has an eviction policy of its own kind") {
  // A first in, first out queue that is smaller than an epoch always has what was wanted before,
  // and never what is wanted next.
  SmallWorld world(plan({32'000}, "fifo"), policy_list());
  run_by_the_rules(world);
  CHECK(world.read_from_gpus() < 3 * 48);
  CHECK(world.samples_dropped() > 0);
  SmallWorld all(plan({96'000}, "fifo"), policy_list());
  run_by_the_rules(all);
  CHECK(all.read_from_gpus() == 3 * 96);
  CHECK(all.samples_dropped() == 0);
}

TEST_CASE("without memory of GPUs nothing changes") {
  WorldPlan without;
  WorldPlan empty;
  empty.gpus = {0, 0};
  SmallWorld first(without, policies::policy_list()), second(empty, policies::policy_list());
  run_by_the_rules(first);
  run_by_the_rules(second);
  CHECK(first.digest() == second.digest());
}

TEST_CASE("memory of GPUs that comes late, goes, and shrinks while it is read") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    WorldPlan changing = plan({16'000}, seed % 2 == 0 ? "lru" : "minio");
    changing.jobs = 3;
    changing.strict = false;
    changing.seed = seed;
    changing.late_one_in = 20;
    changing.failed_one_in = 20;
    changing.resized_one_in = 30;
    SmallWorld world(changing, policy_list());
    Random random(hash(seed, 31));
    for (int i = 0; i < 300 && world.step(); ++i) {
      if (i % 5 != 0) continue;
      const auto gpu = static_cast<std::uint16_t>(random.below(3));
      const Bytes bytes = random.below(3) == 0 ? 0 : random.below(60'000);
      world.add(engine::CapacityChanged{{NodeId(1), Tier::gpu, gpu}, bytes});
    }
    run_by_the_rules(world);
    CHECK(world.read_from_gpus() > 0);
  }
}

TEST_CASE("memory of a GPU that cannot be is a protocol error, and of no use") {
  SmallWorld world(plan({}, "minio"), policy_list());
  const auto errors = [&](Place place) {
    const std::uint64_t before = world.engine().counters().protocol_errors;
    world.add(engine::CapacityChanged{place, 1'000'000});
    for (int i = 0; i < 3; ++i) world.step();
    return world.engine().counters().protocol_errors - before;
  };
  CHECK(errors({NodeId(1), Tier::gpu, engine::kGpusMost}) == 1);
  CHECK(errors({NodeId(1), Tier::gpu, UINT16_MAX}) == 1);
  CHECK(errors({NodeId(7), Tier::gpu, 0}) == 1);
  CHECK(errors({NodeId(1), Tier::gpu, engine::kGpusMost - 1}) == 0);
  REQUIRE(world.run());
  CHECK(world.kept_on(engine::kGpusMost - 1) == 96);
}

TEST_CASE("what GPUs kept before the engine began is of no use to it") {
  TwoNodes nodes;
  const Place gpu{TwoNodes::kSecond, Tier::gpu, 0};
  nodes.add(engine::CapacityChanged{gpu, 1'000'000});
  nodes.keep(gpu, TwoNodes::kPrefix);
  nodes.step();
  CHECK(nodes.counters().protocol_errors == 1);
}

}  // namespace batchflow::test::gpu_memory_test
