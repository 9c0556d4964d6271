// Policies changed while the engine runs: the run goes on, exactly once, each step does a bounded
// amount of work, and a change that names nothing known changes nothing.
#include <doctest/doctest.h>

#include "tests/engine/small_world.h"
#include "tests/policies/random_seeds.h"
#include "tests/policies/tested_policies.h"

using namespace batchflow;
using namespace batchflow::test;

namespace {

std::string text_of(const PolicyEntry& entry) {
  return std::string(policy_kind_name(entry.kind())) + "=" + std::string(entry.name);
}

// To any other policy of its kind: of the prepared form too, which `eviction=` leaves alone.
void change(SmallWorld& world, const PolicyEntry& entry) {
  world.change_policy(text_of(entry));
  if (entry.kind() == PolicyKind::eviction) {
    world.change_policy("eviction.prepared=" + std::string(entry.name));
  }
}

}  // namespace

TEST_CASE("a run goes on when a policy is changed") {
  for_seeds("test_engine", "a run goes on*", 3, [](std::uint64_t seed) {
    Random random(hash(seed, 9));
    for (const PolicyEntry* from : tested_policies().entries()) {
      const auto others = tested_policies().of_kind(from->kind());
      const PolicyEntry* to = others[random.below(others.size())];
      CAPTURE(from->name);
      CAPTURE(to->name);
      WorldPlan plan;
      plan.seed = seed;
      plan.dram = 150'000;
      plan.config = with_policy(from->kind(), std::string(from->name));
      SmallWorld world(plan, tested_policies());
      const std::uint64_t before = random.below(80);
      for (std::uint64_t i = 0; i < before; ++i) world.step();
      change(world, *to);
      REQUIRE(world.run());
      CHECK(world.engine().counters().refused_proposals == 0);
      CHECK(world.engine().counters().protocol_errors == 0);
    }
  });
}

TEST_CASE("policies of all kinds may be changed again and again") {
  for_seeds("test_engine", "policies of all kinds may*", 10, [](std::uint64_t seed) {
    Random random(hash(seed, 10));
    WorldPlan plan;
    plan.seed = seed;
    plan.epochs = 3;
    SmallWorld world(plan, tested_policies());
    const auto entries = tested_policies().entries();
    for (int i = 0; i < 60; ++i) {
      change(world, *entries[random.below(entries.size())]);
      world.step();
      world.step();
    }
    REQUIRE(world.run());
    CHECK(world.engine().counters().refused_proposals == 0);
    CHECK(world.engine().counters().protocol_errors == 0);
  });
}

TEST_CASE("a change that names nothing known changes nothing but the count of errors") {
  for (const char* text : {"dispatch=none", "selection=strct", "eviction=", "eviction.stored=lru",
                           "allocation", "scaling=static:workers=many", "scaling=static:threads=1",
                           "", "=", "dispatch=fifo:", "eviction=lru:size=1", "colour=blue"}) {
    CAPTURE(text);
    WorldPlan plan;
    SmallWorld changed(plan, tested_policies()), left(plan, tested_policies());
    for (int i = 0; i < 40; ++i) {
      changed.step();
      left.step();
    }
    REQUIRE(changed.digest() == left.digest());
    const bool understood = std::string_view(text) == "dispatch=fifo:";
    const Event event = PolicyChanged{text};
    const EngineCounters before = changed.engine().counters();
    const auto commands = changed.engine().step(Instant{}, {&event, 1});
    const EngineCounters after = changed.engine().counters();
    CHECK(after.protocol_errors == before.protocol_errors + (understood ? 0 : 1));
    if (understood) continue;
    CHECK(commands.empty());
    CHECK(after.operations == before.operations);
    CHECK(changed.run());
    CHECK(left.run());
    CHECK(changed.digest() == left.digest());
  }
}
