// Where samples are kept: nodes of different sizes, and drives that come late.
#include <doctest/doctest.h>

#include <algorithm>

#include "policies/registry.h"
#include "tests/driver/driver.h"

namespace batchflow::test::homes_test {

namespace {

constexpr std::uint64_t kSamples = 1000;
constexpr Bytes kSlot = 64;            // of a sample
constexpr Bytes kStaging = 8 * kSlot;  // what is read lands in it
constexpr std::uint32_t kEpochs = 6;

// Two nodes, and a job on the second that reads all samples again and again. Memory is for samples
// alone, but for the blocks that are promised and for what reads land in.
Scenario kept(Bytes first, Bytes second) {
  Scenario scenario = small_scenario();
  scenario.config.staging_bytes = kStaging;
  scenario.config.policies.allocation = "encoded-first:forms=encoded";
  scenario.config.policies.eviction.fill("minio");
  scenario.datasets[0].samples = kSamples;
  scenario.datasets[0].bytes = kSlot;
  scenario.nodes = {{NodeId(1), 2, first + kStaging, 0, {}},
                    {NodeId(2), 2, second + kStaging, 0, {}}};
  JobPlan job;
  job.ranks = {NodeId(2)};
  job.batch_samples = 8;
  job.epochs = kEpochs;
  scenario.jobs = {job};
  return scenario;
}

// The same with room for all samples on each node, alone or in bundles of 1 << shift.
Scenario kept_wholly(std::uint8_t shift) {
  Scenario scenario = kept(2 * kSamples * kSlot, 2 * kSamples * kSlot);
  scenario.config.staging_bytes = 256 * kSlot;
  for (auto& node : scenario.nodes) node.dram += 248 * kSlot;
  scenario.datasets[0].bundle_shift = shift;
  scenario.config.item_slot_bytes = kSlot;
  return scenario;
}

// Samples read from the store in each epoch.
std::vector<std::uint64_t> read_in_epochs(const Scenario& scenario) {
  std::vector<std::uint64_t> in_epoch(kEpochs + 1);
  std::uint32_t ended = 0;
  Hooks hooks;
  hooks.commanded = [&](const engine::Command& command) {
    if (std::holds_alternative<engine::EpochEnded>(command)) ++ended;
    const auto* read = std::get_if<engine::Read>(&command);
    if (read == nullptr || read->from.tier != Tier::store) return;
    in_epoch.at(ended) += read->samples.empty() ? read->lineage.samples : read->samples.size();
  };
  Driver(scenario, policies::policy_list(), hooks).run();
  REQUIRE(ended == kEpochs);
  in_epoch.resize(kEpochs);
  return in_epoch;
}

// Of them in the last epoch.
std::uint64_t read_again(const Scenario& scenario) {
  return read_in_epochs(scenario).back();
}

}  // namespace

TEST_CASE("nodes of different sizes keep as many samples as they can") {
  // Both together hold them one and a half times; the small one a fiftieth part of that.
  const Bytes all = kSamples * kSlot;
  const Bytes small = all * 3 / 100 + 2 * 512, large = all * 3 / 2 + 16 * 512;
  CHECK(read_again(kept(small, large)) == 0);
  CHECK(read_again(kept(large, small + 10 * 512)) == 0);
  CHECK(read_again(kept(large, large)) == 0);
}

// MinIO's bound: what is kept of a dataset is read once, and the rest once an epoch.
TEST_CASE("where all nodes keep a part of the samples, later epochs read the rest alone") {
  const Bytes for_blocks_first = 2 * 512, for_blocks_second = 16 * 512;
  // If no block took any of its room, so many more samples could be kept.
  const std::uint64_t more = (for_blocks_first + for_blocks_second + 2 * kStaging) / kSlot;
  for (const std::uint64_t quarters : {1u, 2u, 3u}) {
    CAPTURE(quarters);
    const std::uint64_t held = kSamples * quarters / 4;
    const Bytes each = held / 2 * kSlot;
    const std::vector<std::uint64_t> read =
        read_in_epochs(kept(each + for_blocks_first, each + for_blocks_second));
    for (std::uint32_t epoch = 1; epoch < kEpochs; ++epoch) {
      CAPTURE(epoch);
      CHECK(read[epoch] <= kSamples - held);
      CHECK(read[epoch] + more >= kSamples - held);
    }
  }
}

// Two jobs of other seeds begin at once, one on each node, and want all samples in orders of their
// own.
TEST_CASE("with room for all, each sample is read from the store once for all nodes") {
  for (const std::uint8_t shift : {std::uint8_t{0}, std::uint8_t{3}}) {
    CAPTURE(shift);
    Scenario scenario = kept_wholly(shift);
    scenario.jobs[0].epochs = 2;
    scenario.jobs.push_back(scenario.jobs[0]);
    for (std::size_t i = 0; i < 2; ++i) {
      scenario.jobs[i].ranks = {NodeId(static_cast<std::uint32_t>(1 + i))};
      scenario.jobs[i].has_shuffle_seed = true;
      scenario.jobs[i].shuffle_seed = i;
    }
    std::vector<std::uint32_t> times(kSamples);
    std::uint64_t fetched = 0;
    Hooks hooks;
    hooks.commanded = [&](const engine::Command& command) {
      const auto* read = std::get_if<engine::Read>(&command);
      if (read == nullptr) return;
      if (read->from.tier != Tier::store) {
        fetched += read->samples.size();
        return;
      }
      REQUIRE(!read->samples.empty());
      for (const SampleId first : read->samples) {
        for (std::uint64_t i = 0; i < std::uint64_t{1} << read->bundle_shift; ++i)
          ++times.at(first.value + i);
      }
    };
    Driver(scenario, policies::policy_list(), hooks).run();
    CHECK(std::all_of(times.begin(), times.end(), [](std::uint32_t one) { return one == 1; }));
    CHECK(fetched > kSamples);
  }
}

// Store reads of each sample, where node 1 is told to end after the first epoch of a job on node 2.
struct Ended {
  std::vector<std::uint32_t> times = std::vector<std::uint32_t>(kSamples);
  std::uint64_t let_go = 0;
  engine::EngineCounters counters;
};
Ended end_of_a_node(Scenario scenario, bool with_notice) {
  scenario.let_go_ends = true;
  Fault fault{};
  fault.kind = with_notice ? Fault::Kind::node_quiesced : Fault::Kind::node_lost;
  fault.after_steps = 2 * kSamples / scenario.jobs[0].batch_samples;
  if (!with_notice) fault.later = std::chrono::hours(1);
  scenario.faults = {fault};
  Ended out;
  std::uint32_t epochs = 0, epochs_before = 0;
  Hooks hooks;
  hooks.before_step = [&](Instant, std::span<const engine::Event> events) {
    for (const engine::Event& event : events) {
      if (std::holds_alternative<engine::NodeQuiesced>(event) ||
          std::holds_alternative<engine::NodeLost>(event))
        epochs_before = std::max(epochs_before, epochs);
    }
  };
  hooks.commanded = [&](const engine::Command& command) {
    epochs += std::holds_alternative<engine::EpochEnded>(command) ? 1 : 0;
    out.let_go += std::holds_alternative<engine::LetGo>(command) ? 1 : 0;
    const auto* read = std::get_if<engine::Read>(&command);
    if (read == nullptr || read->from.tier != Tier::store) return;
    REQUIRE(!read->samples.empty());
    for (const SampleId first : read->samples) {
      for (std::uint64_t i = 0; i < std::uint64_t{1} << read->bundle_shift; ++i)
        ++out.times.at(first.value + i);
    }
  };
  out.counters = Driver(scenario, policies::policy_list(), hooks).run().engine;
  REQUIRE(epochs == kEpochs);
  REQUIRE(epochs_before > 0);
  REQUIRE(epochs_before < kEpochs);
  return out;
}

TEST_CASE("a node that is told to end hands over what it keeps, and nothing is read again") {
  for (const std::uint8_t shift : {std::uint8_t{0}, std::uint8_t{3}}) {
    CAPTURE(shift);
    const Scenario scenario = kept_wholly(shift);
    const Ended handed_over = end_of_a_node(scenario, true);
    CHECK(handed_over.let_go == 1);
    CHECK(std::all_of(handed_over.times.begin(), handed_over.times.end(),
                      [](std::uint32_t one) { return one == 1; }));
    CHECK(handed_over.counters.samples_handed_over > kSamples / 3);
    // A node that ends without notice takes with it what it kept.
    const Ended lost = end_of_a_node(scenario, false);
    CHECK(lost.let_go == 0);
    CHECK(lost.counters.samples_handed_over == 0);
    CHECK(std::count(lost.times.begin(), lost.times.end(), 2u) > static_cast<long>(kSamples / 3));
  }
}

TEST_CASE("what finds no room elsewhere is not handed over, and the node may end all the same") {
  const Bytes all = kSamples * kSlot;
  Scenario scenario = kept(all, all / 4 + 16 * 512);
  const Ended out = end_of_a_node(scenario, true);
  CHECK(out.let_go == 1);
  CHECK(out.counters.samples_handed_over < kSamples / 3);
}

TEST_CASE("a node that grows is the home of more samples from then on") {
  const Bytes all = kSamples * kSlot;
  Scenario scenario = kept(all / 50, all / 50 + 16 * 512);
  CHECK(read_again(scenario) > kSamples * 8 / 10);
  Fault grows{};
  grows.kind = Fault::Kind::capacity;
  grows.when = ms(50);
  grows.bytes = all * 2;
  scenario.faults = {grows};
  // The other one has blocks in most of its memory, too, and keeps less than its part of samples.
  CHECK(read_again(scenario) < kSamples / 10);
}

TEST_CASE("a drive that is announced after the first join is used") {
  Scenario scenario = kept(4096, 16 * 512);
  scenario.nodes.erase(scenario.nodes.begin());
  CHECK(read_again(scenario) > kSamples / 2);
  Hooks hooks;
  std::uint64_t to_drive = 0;
  hooks.commanded = [&](const engine::Command& command) {
    const auto* read = std::get_if<engine::Read>(&command);
    if (read != nullptr && !read->keep.is_none() && read->keep_at.tier == Tier::nvme) ++to_drive;
  };
  Fault comes{};
  comes.kind = Fault::Kind::drive;
  comes.when = ms(50);
  comes.bytes = 2 * kSamples * kSlot;
  scenario.faults = {comes};
  Driver(scenario, policies::policy_list(), hooks).run();
  CHECK(to_drive > 0);
  CHECK(read_again(scenario) == 0);
}

}  // namespace batchflow::test::homes_test
