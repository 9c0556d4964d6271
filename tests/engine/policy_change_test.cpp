// Policies changed while the engine runs: the run goes on, exactly once, each step does a bounded
// amount of work, and a change that names nothing known changes nothing.
#include <doctest/doctest.h>

#include "policies/eviction_list.h"
#include "tests/engine/small_world.h"
#include "tests/policies/random_seeds.h"
#include "tests/policies/tested_policies.h"
#include "tools/bench/instant_backend.h"

namespace batchflow::test::policy_change_test {

namespace {

std::string text_of(const engine::PolicyEntry& entry) {
  return std::string(engine::policy_kind_name(entry.kind())) + "=" + std::string(entry.name);
}

// To any other policy of its kind: of the prepared form too, which `eviction=` leaves alone.
void change(SmallWorld& world, const engine::PolicyEntry& entry) {
  // A buffer keeps the one it has, and so does a mixture.
  if (entry.kind() == engine::PolicyKind::rehearsal || entry.kind() == engine::PolicyKind::mixture)
    return;
  world.change_policy(text_of(entry));
  if (entry.kind() == engine::PolicyKind::eviction) {
    world.change_policy("eviction.prepared=" + std::string(entry.name));
  }
}

// Each policy gives way to one drawn from its kind, at a step that is drawn too.
void change_each(std::uint64_t seed) {
  Random random(hash(seed, 9));
  for (const engine::PolicyEntry* from : tested_policies().entries()) {
    const auto others = tested_policies().of_kind(from->kind());
    const engine::PolicyEntry* to = others[random.below(others.size())];
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
    run_by_the_rules(world);
  }
}

}  // namespace

TEST_CASE("a run goes on when a policy is changed") {
  for_seeds("test_engine", "a run goes on*", 3, change_each);
}
TEST_SUITE("long") {
  TEST_CASE("a run goes on when a policy is changed, many seeds") {
    for_seeds("test_engine", "a run goes on*", 1000, change_each);
  }
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
    // Three jobs, looked at a few times, and at most 27 slots (220,000 / 8,000) told what they are
    // needed for as often.
    CHECK(world.operations_most() <= 10 * (3 + 27));
  });
}

TEST_CASE("a change that names nothing known changes nothing but the count of errors") {
  for (const char* text :
       {"dispatch=none", "selection=strct", "eviction=", "eviction.stored=lru", "allocation",
        "scaling=static:workers=many", "scaling=static:threads=1", "", "=",
        "dispatch=fifo:", "eviction=lru:size=1", "colour=blue", "selection[0=strict",
        "selection[]=strict", "selection[1x]=strict", "eviction.encoded[99999999999]=lru"}) {
    CAPTURE(text);
    WorldPlan plan;
    SmallWorld changed(plan, tested_policies()), left(plan, tested_policies());
    for (int i = 0; i < 40; ++i) {
      changed.step();
      left.step();
    }
    REQUIRE(changed.digest() == left.digest());
    const engine::Event event = engine::PolicyChanged{text};
    const engine::EngineCounters before = changed.engine().counters();
    const auto commands = changed.engine().step(Instant{}, {&event, 1});
    const engine::EngineCounters after = changed.engine().counters();
    CHECK(after.protocol_errors == before.protocol_errors + 1);
    CHECK(commands.empty());
    CHECK(after.operations == before.operations);
    CHECK(changed.run());
    CHECK(left.run());
    CHECK(changed.digest() == left.digest());
  }
}

// ------------------------------------------------------------------------ a million residents ----

namespace {

// What a policy was told since the last look.
struct Told {
  std::uint64_t inserted = 0;
  std::uint64_t hits = 0;
};
Told told_old, told_new;

template <Told& kTold>
class Probe final : public policies::OneListEviction {
 public:
  using policies::OneListEviction::OneListEviction;
  void hit(const engine::Access&) override { ++kTold.hits; }
  void inserted(const engine::Access& access) override {
    ++kTold.inserted;
    policies::OneListEviction::inserted(access);
  }
  ItemId victim(const engine::Access&) override { return list_.oldest(); }
};
const engine::PolicyEntry kOld{"probe-old", "", &policies::make_eviction<Probe<told_old>>};
const engine::PolicyEntry kNew{"probe-new", "", &policies::make_eviction<Probe<told_new>>};

const engine::PolicyList& list_with_probes() {
  static const std::vector<const engine::PolicyEntry*> entries = [] {
    const auto registered = policies::policy_list().entries();
    std::vector<const engine::PolicyEntry*> all(registered.begin(), registered.end());
    all.insert(all.end(), {&kOld, &kNew});
    return all;
  }();
  static const engine::PolicyList list(entries);
  return list;
}

constexpr std::uint64_t kMany = 1'000'000;
constexpr std::uint64_t kWorkAStep = 2048;  // of residents shown in one step

}  // namespace

TEST_CASE("a new eviction policy is shown a million residents in slices") {
  told_old = told_new = {};
  engine::Catalogues catalogues;
  catalogues.add(DatasetId(1), engine::Catalogue::uniform("many", 7, kMany, 1000));
  engine::PipelineInfo pipeline;
  pipeline.hash = 9;
  pipeline.has_random = true;
  pipeline.prepared_bytes = 1000;
  catalogues.add(PipelineId(1), pipeline);
  engine::EngineConfig config;
  config.block_bytes = 1'000'000;
  config.item_slot_bytes = 1000;
  config.policies.eviction = {"probe-old", "probe-old", "refcount", "probe-old", "probe-old"};
  engine::Engine engine(config, list_with_probes(), catalogues);
  bench::InstantBackend backend(engine, DatasetId(1), 7, PipelineId(1), 9);
  backend.node(NodeId(1), 4, Bytes{10'000'000'000});
  backend.join({JobId(1), Order::strict, 1000}, NodeId(1));
  while (told_old.inserted < kMany) REQUIRE(backend.step());
  CHECK(told_old.inserted == kMany);

  const std::uint64_t operations = engine.counters().operations;
  backend.add(engine::PolicyChanged{"eviction.encoded=probe-new"});
  std::uint64_t steps = 0;
  for (std::uint64_t shown = 0; shown < kMany; shown = told_new.inserted) {
    REQUIRE(backend.step());
    ++steps;
    CHECK(told_new.inserted - shown <= kWorkAStep);
  }
  CHECK(steps >= kMany / kWorkAStep);
  CHECK(steps <= kMany / kWorkAStep + 2);
  CHECK(told_old.hits > 0);  // it answered all the while
  CHECK((engine.counters().operations - operations) / steps <= 8);
  const Told before = told_old;
  for (int i = 0; i < 100; ++i) REQUIRE(backend.step());
  CHECK(told_old.hits == before.hits);
  CHECK(told_new.hits > 0);
  engine.check_consistency();
}

}  // namespace batchflow::test::policy_change_test
