// What jobs share changes while they train. Each goes on in a shared stream, or in one of its own,
// where its epoch ends: with each sample once, no draw twice, and nothing that a rank reads given
// away.
#include <doctest/doctest.h>

#include "tests/engine/small_world.h"
#include "tests/policies/chooses_samples.h"
#include "tests/policies/random_seeds.h"
#include "tests/policies/tested_policies.h"

namespace batchflow::test::sharing_change_test {

namespace {

// All that a preset has, as a service tells it to its engine.
void change_to(SmallWorld& world, const engine::Preset& preset) {
  world.change_policy(fmt::format("allocation={}", preset.allocation));
  for (std::size_t form = 0; form < kForms; ++form)
    world.change_policy(
        fmt::format("eviction.{}={}", name_of(static_cast<Form>(form)), preset.eviction[form]));
  world.change_policy(fmt::format("selection={}", preset.selection));
  world.change_policy(fmt::format("dispatch={}", preset.dispatch));
  world.change_policy(fmt::format("scaling={}", preset.scaling));
  world.change_setting(fmt::format("share_streams={}", preset.share_streams));
  world.change_setting(fmt::format("share_nodes={}", preset.share_nodes));
  world.change_setting(fmt::format("helper_nodes={}", preset.helper_nodes));
  world.change_setting(fmt::format("workers_per_rank={}", preset.workers_per_rank));
  world.change_setting(
      fmt::format("workers_held_during_reads={}", preset.workers_held_during_reads));
  world.change_setting(fmt::format("late_after_p99={}", preset.late_after_p99));
}

// Jobs that join while a policy chooses samples have an order of their own for good.
const engine::Preset& some_preset(Random& random) {
  for (;;) {
    const engine::Preset& preset = *engine::presets()[random.below(engine::presets().size())];
    const engine::PolicyChoice choice =
        tested_policies().choose(engine::PolicyKind::selection, std::string(preset.selection));
    if (!chooses_samples(choice)) return preset;
  }
}

WorldPlan plan_of(std::uint64_t seed) {
  Random random(hash(seed, 11));
  WorldPlan plan;
  plan.seed = seed;
  plan.epochs = 2 + static_cast<std::uint32_t>(random.below(6));
  plan.dram = 150'000 + random.below(150'000);
  plan.strict = random.below(4) == 0;
  plan.config.share_streams = random.below(2) == 0;
  if (random.below(3) == 0) {
    plan.late_one_in = 20;
    plan.failed_one_in = 20;
    plan.lost_one_in = 50;
  }
  return plan;
}

// To the end; each job has had each sample once in each epoch, and none with the same draws.
void check_end(SmallWorld& world) {
  REQUIRE(world.run(200'000));
  CHECK(world.refusals() == 0);
  CHECK(world.repeats() == 0);
  CHECK(world.engine().counters().refused_proposals == 0);
  CHECK(world.engine().counters().protocol_errors == 0);
}

}  // namespace

TEST_CASE("streams become shared, and jobs' own, again and again in the middle of epochs") {
  for_seeds("test_engine", "streams become shared*", 30, [](std::uint64_t seed) {
    Random random(hash(seed, 12));
    SmallWorld world(plan_of(seed), tested_policies());
    bool shared = random.below(2) == 0;
    for (int i = 0; i < 40; ++i) {
      for (std::uint64_t steps = random.below(30); steps > 0; --steps) world.step();
      world.change_setting(fmt::format("share_streams={}", shared = !shared));
    }
    check_end(world);
  });
}

TEST_CASE("presets change again and again in the middle of epochs") {
  for_seeds("test_engine", "presets change*", 20, [](std::uint64_t seed) {
    Random random(hash(seed, 13));
    SmallWorld world(plan_of(seed), tested_policies());
    for (int i = 0; i < 30; ++i) {
      for (std::uint64_t steps = random.below(30); steps > 0; --steps) world.step();
      change_to(world, some_preset(random));
    }
    check_end(world);
  });
}

TEST_CASE("jobs that come together share what is prepared, from their next epoch on") {
  const auto preparations = [](bool shared_first, bool shared_then) {
    WorldPlan plan;
    plan.epochs = 8;
    plan.dram = 10'000'000;
    plan.jobs = 2;
    plan.config.share_streams = shared_first;
    SmallWorld world(plan, tested_policies());
    for (int i = 0; i < 20; ++i) world.step();
    if (shared_then != shared_first)
      world.change_setting(fmt::format("share_streams={}", shared_then));
    check_end(world);
    return world.engine().counters().preparations;
  };
  // An epoch has 13 blocks. One of each job is over when streams change.
  const std::uint64_t alone = preparations(false, false);
  const std::uint64_t shared = preparations(true, true);
  CHECK(alone == 2 * 8 * 13);
  CHECK(shared < alone - 2 * 13);
  CHECK(preparations(false, true) <= shared + 2 * 13);
  CHECK(preparations(true, false) >= alone - 2 * 13);
}

TEST_CASE("a job without room in its new stream stays where it is, and ends") {
  for (Bytes dram = 60'000; dram <= 150'000; dram += 2'000) {
    CAPTURE(dram);
    for (const bool shared : {false, true}) {
      WorldPlan plan;
      plan.epochs = 4;
      plan.dram = dram;
      plan.config.share_streams = shared;
      SmallWorld world(plan, tested_policies());
      for (int i = 0; i < 60; ++i) world.step();
      if (world.refusals() > 0) continue;  // not even at the beginning
      world.change_setting(fmt::format("share_streams={}", !shared));
      check_end(world);
    }
  }
}

TEST_CASE("settings of what is shared are refused where they are none") {
  for (const char* text : {"share_streams=2", "share_streams=", "helper_nodes=-1", "helper_nodes=x",
                           "workers_per_rank=5000", "workers_held_during_reads=yes",
                           "late_after_p99=1001", "share=true"}) {
    CAPTURE(text);
    engine::EngineConfig config;
    CHECK_THROWS_AS(engine::change_setting(config, text), ConfigError);
    CHECK(config == engine::EngineConfig());
  }
}

}  // namespace batchflow::test::sharing_change_test
