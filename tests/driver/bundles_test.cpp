// What is read and kept where samples come in bundles, worked out by hand: 64 samples of 64 bytes,
// eight a bundle, in blocks of eight.
#include <doctest/doctest.h>

#include <map>
#include <optional>

#include "policies/registry.h"
#include "tests/driver/driver.h"

namespace batchflow::test::bundles_test {

namespace {

constexpr Bytes kSample = 64;
constexpr Bytes kBundle = 8 * kSample;
constexpr std::uint32_t kEpochs = 4;

struct Counts {
  std::map<std::uint64_t, std::uint32_t> bundles;  // how often each was read, by its first sample
  std::vector<std::uint64_t> alone = std::vector<std::uint64_t>(kEpochs);  // samples, by epoch
  std::uint32_t looked_up = 0;  // parts of blocks with an entry for some sample
  std::uint32_t kept = 0;       // blocks without any
};

struct Setting {
  bool runs = false;
  std::uint8_t bundle_shift = 3;
  const char* eviction = "minio";
};
// Memory is for `kept` bytes of samples beside staging, and the blocks that are promised.
Counts count(Bytes kept, Bytes staging, Order order, const Setting& setting = {}) {
  Scenario scenario = small_scenario();
  scenario.config.staging_bytes = staging;
  scenario.config.policies.allocation = "encoded-first:forms=encoded";
  scenario.config.policies.eviction.fill(setting.eviction);
  scenario.timings.jitter = false;
  scenario.datasets[0].samples = 64;
  scenario.datasets[0].bytes = kSample;
  scenario.datasets[0].bundle_shift = setting.bundle_shift;
  scenario.config.item_slot_bytes = kSample;
  scenario.nodes = {{NodeId(1), 2, kept + staging, 0, {}}};
  JobPlan job;
  job.ranks = {NodeId(1)};
  job.order = order;
  job.runs = setting.runs;
  job.epochs = kEpochs;
  scenario.jobs = {job};
  Counts counts;
  Hooks hooks;
  hooks.commanded = [&](const engine::Command& command) {
    if (const auto* read = std::get_if<engine::Read>(&command)) {
      CHECK(read->from.tier == Tier::store);
      for (const SampleId sample : read->samples) {
        if (read->bundle_shift == 3) ++counts.bundles[sample.value];
        if (read->bundle_shift == 0) ++counts.alone.at(read->lineage.name.generation);
      }
      if (read->samples.empty()) counts.alone.at(read->lineage.name.generation) += 8;
    } else if (const auto* prepare = std::get_if<engine::Prepare>(&command)) {
      const bool all = prepare->ingredients.empty() && prepare->kept_from == 0 &&
                       prepare->kept_to == prepare->lineage.samples;
      ++(all ? counts.kept : counts.looked_up);
    }
  };
  const Outcomes out = Driver(scenario, policies::policy_list(), hooks).run();
  CHECK(out.engine.protocol_errors == 0);
  CHECK(out.engine.preparations == kEpochs * 8);
  return counts;
}

}  // namespace

TEST_CASE("with room for all, each bundle is read once, and then no sample is looked up") {
  for (const Order order : {Order::strict, Order::sequential}) {
    const Counts counts = count(8 * kBundle + 16 * 512, 64 * kBundle, order);
    CHECK(counts.bundles.size() == 8);
    for (const auto& [first, times] : counts.bundles) {
      CHECK(first % 8 == 0);
      CHECK(times == 1);
    }
    CHECK(counts.alone == std::vector<std::uint64_t>(kEpochs, 0));
    // A worker finds them by the block's name, also those that the block itself has brought.
    CHECK(counts.looked_up == 0);
    CHECK(counts.kept == kEpochs * 8);
  }
}

TEST_CASE("samples that are kept whole are looked up in no block, unless the policy uses hits") {
  for (const char* eviction : {"minio", "lru"}) {
    const Counts counts = count(64 * kSample + 16 * 512, 64 * kSample, Order::strict,
                                {.bundle_shift = 0, .eviction = eviction});
    CHECK(counts.bundles.empty());
    CHECK(counts.alone == std::vector<std::uint64_t>{64, 0, 0, 0});
    CHECK(counts.kept == (std::string_view(eviction) == "minio" ? (kEpochs - 1) * 8 : 0));
    CHECK(counts.kept + counts.looked_up == kEpochs * 8);
  }
}

TEST_CASE("what finds no room for its bundle is read alone, in each epoch") {
  const Counts counts = count(3 * kBundle + 4 * 512, 8 * kBundle, Order::strict);
  const std::size_t kept = counts.bundles.size();
  CHECK(kept >= 3);
  CHECK(kept < 8);
  for (const auto& [first, times] : counts.bundles) CHECK(times == 1);
  for (std::uint32_t epoch = 1; epoch < kEpochs; ++epoch)
    CHECK(counts.alone[epoch] == 64 - 8 * kept);
}

TEST_CASE("where a bundle cannot be staged, every sample is read alone") {
  const Counts counts = count(8 * kBundle + 16 * 512, kBundle - 1, Order::strict);
  CHECK(counts.bundles.empty());
  for (std::uint32_t epoch = 0; epoch < kEpochs; ++epoch) CHECK(counts.alone[epoch] == 64);
}

TEST_CASE("runs: no sample is read alone, and a bundle at most once an epoch") {
  // Of the same memory a shuffle of samples makes less, as the case above shows.
  const Counts counts = count(4 * kBundle + 4 * 512, 8 * kBundle, Order::relaxed, {.runs = true});
  CHECK(counts.alone == std::vector<std::uint64_t>(kEpochs, 0));
  std::uint32_t reads = 0;
  for (const auto& [first, times] : counts.bundles) {
    CHECK(first % 8 == 0);
    CHECK(times <= kEpochs);
    reads += times;
  }
  CHECK(counts.bundles.size() == 8);
  CHECK(reads <= 8 * kEpochs);
  // What is kept from epoch to epoch is not read again.
  CHECK(reads <= 8 * kEpochs - (kEpochs - 1));
}

TEST_CASE("runs are refused where there are none, and for other orders") {
  const auto refused = [](std::uint8_t shift, Order order) {
    Scenario scenario = small_scenario();
    scenario.datasets[0].bundle_shift = shift;
    JobPlan job;
    job.ranks = {NodeId(1)};
    job.order = order;
    job.runs = true;
    scenario.jobs = {job};
    std::optional<engine::Refusal> why;
    Hooks hooks;
    hooks.commanded = [&](const engine::Command& command) {
      if (const auto* refuse = std::get_if<engine::Refuse>(&command)) why = refuse->why;
    };
    Driver(scenario, policies::policy_list(), hooks).run();
    return why;
  };
  CHECK(refused(3, Order::relaxed) == std::nullopt);
  CHECK(refused(0, Order::relaxed) == engine::Refusal::wrong_order);
  CHECK(refused(3, Order::strict) == engine::Refusal::wrong_order);
  CHECK(refused(3, Order::sequential) == engine::Refusal::wrong_order);
}

}  // namespace batchflow::test::bundles_test
