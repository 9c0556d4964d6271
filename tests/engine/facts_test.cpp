// What policies are shown of costs, loads and stalls, and when they are asked again.
#include <doctest/doctest.h>

#include "core/engine/sample_costs.h"
#include "core/order/order.h"
#include "policies/make.h"
#include "tests/engine/small_world.h"
#include "tests/policies/keeps_nothing.h"
#include "tests/policies/tested_policies.h"

namespace batchflow::test::facts_test {

namespace {

std::vector<engine::PlaceView> shown;
std::vector<std::vector<engine::ShareView>> shares_shown;

// Keeps what it is shown, gives all forms the same, and asks again after two milliseconds.
class Looks final : public engine::AllocationPolicy {
 public:
  explicit Looks(const engine::PolicyContext&) {}
  void allocate(const engine::PlaceView& place, std::span<Slots> slots) override {
    shown.push_back(place);
    shares_shown.emplace_back(place.shares.begin(), place.shares.end());
    for (std::size_t i = 0; i < slots.size(); ++i) {
      slots[i] = place.capacity_bytes / slots.size() / place.shares[i].slot_bytes;
    }
    now_ = place.now;
  }
  Instant ask_again() override { return now_ + std::chrono::milliseconds(2); }
  bool wants_measures() const override { return true; }

 private:
  Instant now_{};
};

// Keeps what it is told of requests, and lets nothing in: each request is a miss.
std::vector<engine::Access> requests;
std::vector<std::uint32_t> epochs;

class Listens final : public KeepsNothing {
 public:
  explicit Listens(const engine::EvictionContext&) {}
  engine::Admission missed(const engine::Access& access) override {
    requests.push_back(access);
    return engine::Admission::bypass;
  }
  void epoch_began(JobId, std::uint32_t epoch) override { epochs.push_back(epoch); }
};

const engine::PolicyEntry kListens{.name = "listens",
                                   .help = "Listens.",
                                   .make = &policies::make_eviction<Listens>,
                                   .next_uses = true};

const engine::PolicyEntry kLooks{"looks", "Looks.",
                                 &policies::make_policy<engine::AllocationPolicy, Looks>};

const engine::PolicyList& list() {
  static const std::vector<const engine::PolicyEntry*> entries = [] {
    const auto tested = tested_policies().entries();
    std::vector<const engine::PolicyEntry*> all(tested.begin(), tested.end());
    all.push_back(&kLooks);
    all.push_back(&kListens);
    return all;
  }();
  static const engine::PolicyList policies(entries);
  return policies;
}

}  // namespace

TEST_CASE("an allocation policy is asked again when it says so, and shown what was measured") {
  shown.clear();
  shares_shown.clear();
  WorldPlan plan;
  plan.config = with_policy(engine::PolicyKind::allocation, "looks");
  plan.epochs = 4;
  SmallWorld world(plan, list());
  run_by_the_rules(world);
  // Steps are a millisecond apart.
  REQUIRE(shown.size() >= world.steps() / 3);
  bool any_needed = false;
  bool any_decoded = false;
  bool any_stall = false;
  double made = 0;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const engine::PlaceView& place = shown[i];
    if (i > 0) CHECK(place.now >= shown[i - 1].now);
    CHECK(place.busy >= 0);
    CHECK(place.busy <= 1);
    CHECK(place.waits_for_reads >= 0);
    CHECK(place.busy + place.waits_for_reads <= 1 + 1e-9);
    for (const engine::ShareView& share : shares_shown[i]) {
      CHECK(share.slots_used <= share.slots_now);
      CHECK(share.hit_ratio <= 1);
      CHECK(share.stall >= 0);
      CHECK(share.stall <= 1);
      CHECK(share.weight == share.jobs);  // all have the usual weight
      any_stall = any_stall || share.stall > 0;
      made = std::max(made, share.made_per_s);
      if (share.form == Form::prepared) {
        CHECK(share.slots_needed <= share.slots_now);
        any_needed = any_needed || share.slots_needed > 0;
      } else {
        CHECK(share.samples_all == plan.samples);
        CHECK(share.store_bytes == SmallWorld::kSampleBytes);
        any_decoded = any_decoded || (share.form == Form::decoded && share.worker_s > 0);
      }
    }
  }
  CHECK(shown.back().workers == 4);
  CHECK(any_needed);
  CHECK(any_decoded);
  CHECK(any_stall);
  CHECK(made > 0);
}

TEST_CASE("a strict job's requests are told with the order in which they come again") {
  requests.clear();
  epochs.clear();
  WorldPlan plan;
  plan.config.policies.allocation = "encoded-first:forms=encoded+prepared";
  plan.config.policies.eviction[0] = "listens";
  plan.config.share_nodes = false;
  plan.jobs = 1;
  plan.strict = true;
  plan.epochs = 3;
  SmallWorld world(plan, list());
  REQUIRE(world.run());
  REQUIRE(requests.size() == plan.samples * plan.epochs);
  CHECK(epochs == std::vector<std::uint32_t>{0, 1, 2});
  // Where a sample stands in the next epoch. Blocks are looked up in about the order of the job.
  order::Expander orders;
  const auto next_at = [&](std::size_t request) {
    const order::LaneSizes sizes{plan.samples, SmallWorld::kBlockSamples, 1};
    const std::uint64_t epoch = request / plan.samples + 1;
    return orders.index_in_generation({Order::strict, {7, 0}, epoch, sizes},
                                      SampleId(requests[request].item.value));
  };
  std::size_t compared = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    CHECK(requests[i].job == JobId(0));
    const std::uint64_t in_epoch = i % plan.samples;
    const bool last = i >= plan.samples * (plan.epochs - 1);
    // At the end of an epoch, blocks of the next are begun already.
    if (in_epoch < 64 && last) CHECK(requests[i].next_use == engine::kNeverUsed);
    if (in_epoch == 0 || in_epoch >= 32 || last || requests[i].at != requests[i - 1].at) continue;
    CHECK((next_at(i - 1) < next_at(i)) == (requests[i - 1].next_use < requests[i].next_use));
    ++compared;
  }
  CHECK(compared > 40);
}

// What a relaxed job is to come to is the same for all samples of a lane, and found once a block.
TEST_CASE("what relaxed jobs request again is not told to be never used, and their last is") {
  for (const std::uint32_t jobs : {1u, 2u}) {
    requests.clear();
    WorldPlan plan;
    plan.samples = 400;
    plan.config.policies.allocation = "encoded-first:forms=encoded+prepared";
    plan.config.policies.eviction[0] = "listens";
    plan.jobs = jobs;
    plan.epochs = jobs == 1 ? 3 : 1;
    SmallWorld world(plan, list());
    REQUIRE(world.run());
    REQUIRE(requests.size() >= plan.samples * plan.epochs);
    std::vector<std::size_t> left(plan.samples, 0);
    for (const engine::Access& one : requests) ++left[one.item.value];
    std::size_t again = 0, not_foreseen = 0, never = 0, differ = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const engine::Access& one = requests[i];
      const bool unused = one.next_use == engine::kNeverUsed;
      const bool last = --left[one.item.value] == 0;
      again += last ? 0 : 1;
      not_foreseen += !last && unused ? 1 : 0;
      never += unused ? 1 : 0;
      CHECK(one.next_use >= static_cast<std::uint64_t>(one.at.time_since_epoch().count()));
      const bool one_instant = i > 0 && one.at == requests[i - 1].at;
      differ += one_instant && one.next_use != requests[i - 1].next_use ? 1 : 0;
    }
    CHECK(again > 0);
    CHECK(never > plan.samples / 2);
    if (jobs == 1) {
      CHECK(not_foreseen == 0);
    } else {
      // A job that has just come, and blocks that are made again, are not foreseen. Of one instant
      // some lanes are still to come to one of the two, and others to none.
      CHECK(not_foreseen < again / 4);
      CHECK(differ > 0);
    }
  }
}

TEST_CASE("costs of both forms are found from parts that have both, and follow a slower node") {
  Random random(1);
  engine::SampleCosts costs;
  CHECK_FALSE(costs.measured());
  const auto make = [&](double encoded_s, double decoded_s, int parts) {
    for (int i = 0; i < parts; ++i) {
      const auto decoded = static_cast<double>(random.below(129));
      const double noise = 0.95 + 0.1 * random.unit();
      costs.add(256 - decoded, decoded,
                ((256 - decoded) * encoded_s + decoded * decoded_s) * noise);
    }
  };
  costs.add(256, 0, 256 * 4e-3);
  CHECK(costs.encoded_s() == 4e-3);
  CHECK(costs.decoded_s() == 2e-3);  // as long as nothing is known
  make(4e-3, 1.5e-3, 200);
  CHECK(costs.encoded_s() == doctest::Approx(4e-3).epsilon(0.05));
  CHECK(costs.decoded_s() == doctest::Approx(1.5e-3).epsilon(0.1));
  make(8e-3, 3e-3, 300);
  CHECK(costs.encoded_s() == doctest::Approx(8e-3).epsilon(0.05));
  CHECK(costs.decoded_s() == doctest::Approx(3e-3).epsilon(0.15));
}

TEST_CASE("where all parts are of one form, only its cost moves") {
  engine::SampleCosts costs;
  for (int i = 0; i < 50; ++i) costs.add(64, 0, 0.64);
  const double decoded = costs.decoded_s();
  for (int i = 0; i < 500; ++i) costs.add(64, 0, 1.28);
  CHECK(costs.encoded_s() == doctest::Approx(0.02).epsilon(0.02));
  CHECK(costs.decoded_s() == decoded);
  // A worker that was stopped for an hour says little.
  costs.add(64, 0, 3600);
  CHECK(costs.encoded_s() < 0.04);
}

}  // namespace batchflow::test::facts_test
