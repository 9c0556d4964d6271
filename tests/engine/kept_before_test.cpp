// What nodes have kept from before an engine began, as when another coordinator takes over.
#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "policies/registry.h"
#include "tests/engine/small_world.h"
#include "tests/engine/two_nodes.h"

namespace batchflow::test::kept_before_test {

namespace {

constexpr std::uint64_t kSamples = 100;

constexpr Place kMemory{NodeId(1), Tier::dram, 0};
constexpr Digest kPrefix = 5;  // of the pipeline of SmallWorld

// One job over a node that says at the start that it keeps the first samples.
struct Before {
  explicit Before(std::uint64_t kept, Bytes dram = 1'000'000)
      : Before(kept, {kMemory, DatasetId(1), 0, 0, 0, {}}, "encoded-first:forms=encoded", dram) {}
  Before(std::uint64_t kept, engine::SamplesKept event, const std::string& allocation, Bytes dram)
      : world(plan(allocation, dram), policies::policy_list()) {
    for (std::uint64_t i = 0; i < kept; ++i) samples.emplace_back(i);
    event.samples = samples;
    world.add(event);
  }
  static WorldPlan plan(const std::string& allocation, Bytes dram) {
    WorldPlan plan;
    plan.config.policies.allocation = allocation;
    plan.samples = kSamples;
    plan.dram = dram;
    plan.jobs = 1;
    return plan;
  }
  std::vector<SampleId> samples;
  SmallWorld world;
};

// From where the samples of a job's first blocks are read, where the second of two nodes says that
// it keeps all samples in this form.
std::set<std::pair<Place, Form>> first_reads(Place at, Digest prefix) {
  TwoNodes nodes;
  nodes.keep(at, prefix);
  nodes.join({});
  std::set<std::pair<Place, Form>> found;
  for (int step = 0; step < 50; ++step) {
    for (const engine::Command& command : nodes.step()) {
      if (const auto* read = std::get_if<engine::Read>(&command))
        found.insert({read->from, read->form});
    }
  }
  CHECK(nodes.counters().items_adopted == TwoNodes::kSamples);
  CHECK(nodes.counters().protocol_errors == 0);
  return found;
}

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

TEST_CASE("what comes in over several steps is not read meanwhile") {
  WorldPlan plan = Before::plan("encoded-first:forms=encoded", 200'000'000);
  plan.samples = 40 * engine::kSamplesKeptMost;
  plan.epochs = 1;
  SmallWorld world(plan, policies::policy_list());
  std::vector<SampleId> all;
  for (std::uint64_t i = 0; i < plan.samples; ++i) all.emplace_back(i);
  for (std::span<const SampleId> left(all); !left.empty();) {
    const auto some = left.first(std::min(left.size(), engine::kSamplesKeptMost));
    world.add(engine::SamplesKept{kMemory, DatasetId(1), 0, 0, 0, some});
    left = left.subspan(some.size());
  }
  for (int steps = 0; steps < 200; ++steps) REQUIRE(world.step());
  CHECK(world.deliveries() > 0);
  CHECK(world.engine().counters().items_adopted == plan.samples);
  CHECK(world.samples_read() == 0);
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
  const Place drive{NodeId(1), Tier::nvme, 0};
  const std::vector<engine::SamplesKept> wrong{
      {{NodeId(9), Tier::dram, 0}, DatasetId(1), 0, 0, 0, some},
      {{NodeId(1), Tier::gpu, 0}, DatasetId(1), 0, 0, 0, some},
      {{NodeId(1), Tier::dram, 1}, DatasetId(1), 0, 0, 0, some},
      {kMemory, DatasetId(9), 0, 0, 0, some},
      {kMemory, DatasetId(1), 0, 0, 0, beyond},
      {kMemory, DatasetId(1), 0, 0, 2, odd},
      {kMemory, DatasetId(1), 0, 0, 200, some},
      {kMemory, DatasetId(1), 0, 0, 0, too_many},
      {kMemory, DatasetId(1), 0, 1000, 0, some},        // stored ones have sizes of their own
      {kMemory, DatasetId(1), kPrefix, 0, 0, some},     // decoded ones have some
      {kMemory, DatasetId(1), kPrefix, 1000, 2, some},  // and come alone
      {drive, DatasetId(1), kPrefix, 1000, 0, some},    // drives keep what is stored
      {drive, DatasetId(1), 0, 0, 2, some}};
  Before before(0);
  for (const engine::SamplesKept& one : wrong) before.world.add(one);
  before.world.add(engine::SamplesKept{kMemory, DatasetId(1), 0, 0, 0, all});
  // More than there are.
  before.world.add(engine::SamplesKept{kMemory, DatasetId(1), 0, 0, 0, some});
  REQUIRE(before.world.run());
  CHECK(before.world.engine().counters().protocol_errors == wrong.size() + 1);
}

TEST_CASE("a node that names forms without end is not listened to any more") {
  const std::vector<SampleId> some{SampleId(3)};
  Before before(0);
  for (std::uint64_t i = 0; i < 2 * engine::kFormsKeptMost; ++i)
    before.world.add(engine::SamplesKept{kMemory, DatasetId(1), 100 + i, 1000, 0, some});
  REQUIRE(before.world.run());
  CHECK(before.world.engine().counters().protocol_errors == engine::kFormsKeptMost);
}

TEST_CASE("what a node has decoded is neither decoded nor read again") {
  for (const std::uint64_t kept : {1, 60, 100}) {
    CAPTURE(kept);
    Before before(kept, {kMemory, DatasetId(1), kPrefix, 1200, 0, {}}, "equal", 1'000'000);
    run_by_the_rules(before.world);
    for (std::uint64_t i = 0; i < kSamples; ++i)
      CHECK((before.world.decoded(SampleId(i)) == 0) == (i < kept));
    CHECK(before.world.samples_read() == kSamples - kept);
    CHECK(before.world.adoptions() == 1);
    CHECK(before.world.engine().counters().items_adopted == kept);
    CHECK(before.world.samples_dropped() == 0);
  }
}

TEST_CASE("what another pipeline has decoded waits for that, and is of no use to this one") {
  Before before(60, {kMemory, DatasetId(1), kPrefix + 1, 1000, 0, {}}, "equal", 1'000'000);
  run_by_the_rules(before.world);
  CHECK(before.world.samples_read() == kSamples);
  CHECK(before.world.adoptions() == 0);
}

TEST_CASE("samples are used from where they were kept, though their homes are elsewhere") {
  const Place memory{TwoNodes::kSecond, Tier::dram, 0}, drive{TwoNodes::kSecond, Tier::nvme, 0};
  using Reads = std::set<std::pair<Place, Form>>;
  CHECK(first_reads(memory, 0) == Reads{{memory, Form::encoded}});
  CHECK(first_reads(memory, kPrefix) == Reads{{memory, Form::decoded}});
  CHECK(first_reads(drive, 0) == Reads{{drive, Form::encoded}});
}

}  // namespace batchflow::test::kept_before_test
