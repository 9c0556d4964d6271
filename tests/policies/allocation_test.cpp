// The built-in allocation policies against figures worked out by hand. (conformance_test.cpp has
// all of them over random places.)
#include <doctest/doctest.h>

#include "policies/conformance/random_views.h"
#include "tests/policies/tested_policies.h"

namespace batchflow::test::allocation_test {

namespace {

std::vector<Slots> allocate(engine::AllocationPolicy& policy, const engine::PlaceView& place) {
  std::vector<Slots> slots(place.shares.size(), 0);
  policy.allocate(place, slots);
  REQUIRE(slots.size() == place.shares.size());
  return slots;
}

// A share of `all` slots of `slot_bytes` that `jobs` read from.
engine::ShareView share_of(Bytes slot_bytes, Slots all, std::uint32_t jobs) {
  engine::ShareView share{};
  share.slot_bytes = slot_bytes;
  share.slots_all = all;
  share.jobs = jobs;
  return share;
}

std::vector<Slots> answer(std::string_view policy, Bytes capacity,
                          const std::vector<engine::ShareView>& shares) {
  const engine::PolicyChoice choice =
      policies::policy_list().choose(engine::PolicyKind::allocation, policy);
  return allocate(*make<engine::MakeAllocation>(choice),
                  {{NodeId(1), Tier::dram, 0}, capacity, shares});
}

}  // namespace

TEST_CASE("equal gives the shares that are read from the same bytes") {
  using List = std::vector<Slots>;
  // 1000 bytes for two: 500 each, in slots of 10 and of 30.
  CHECK(answer("equal", 1000, {share_of(10, 9, 1), share_of(7, 9, 0), share_of(30, 9, 2)}) ==
        List{50, 0, 16});
  CHECK(answer("equal", 1000, {share_of(1001, 9, 1)}) == List{0});
  CHECK(answer("equal", 0, {share_of(1, 9, 1), share_of(1, 9, 1)}) == List{0, 0});
  CHECK(answer("equal", 1000, {share_of(1, 9, 0)}) == List{0});
  CHECK(answer("equal", 1000, {}).empty());
  CHECK(answer("equal", UINT64_MAX, {share_of(1, 1, 1), share_of(2, 1, 1)}) ==
        List{UINT64_MAX / 2, UINT64_MAX / 4});
}

TEST_CASE("proportional divides by what the shares could keep") {
  using List = std::vector<Slots>;
  // They could keep 1000 and 3000 bytes (no job reads the third): 250 and 750.
  CHECK(answer("proportional", 1000,
               {share_of(10, 100, 1), share_of(10, 300, 5), share_of(20, 50, 0)}) ==
        List{25, 75, 0});
  // The number of jobs does not matter, the form's slots do: 250 bytes hold 2 slots of 100.
  CHECK(answer("proportional", 1000, {share_of(100, 10, 9), share_of(10, 300, 1)}) == List{2, 75});
  // A small place: 1 of 4 and 3 of 4 bytes.
  CHECK(answer("proportional", 4, {share_of(1, 100, 1), share_of(1, 300, 1)}) == List{1, 3});
  CHECK(answer("proportional", 1000, {share_of(10, 0, 1)}) == List{0});
  CHECK(answer("proportional", 1000, {share_of(10, 5, 0)}) == List{0});
  CHECK(answer("proportional", 0, {share_of(10, 5, 1)}) == List{0});
  // All sizes at their greatest: half of the place each, but for the rounding of one scale.
  const auto huge =
      answer("proportional", UINT64_MAX,
             {share_of(Bytes{1} << 40, UINT64_MAX, 1), share_of(Bytes{1} << 40, UINT64_MAX, 1)});
  CHECK(huge[0] == huge[1]);
  CHECK(huge[0] >= (Slots{1} << 23) - 1);
  CHECK(huge[0] <= Slots{1} << 23);
}

TEST_CASE("a form that is not kept gets its promise and what is made ahead, the rest is divided") {
  using List = std::vector<Slots>;
  engine::ShareView made = share_of(100, 50, 2);
  made.form = Form::prepared;
  made.slots_least = 2;
  made.slots_ahead = 3;
  engine::ShareView promised =
      share_of(100, 50, 1);  // the engine raises it to its promise by itself
  promised.form = Form::prepared;
  promised.slots_least = 1;
  const std::vector<engine::ShareView> shares = {made, share_of(10, 300, 1), share_of(10, 100, 1),
                                                 promised};
  CHECK(answer("proportional:forms=encoded", 1000, shares) == List{5, 37, 12, 0});
  CHECK(answer("equal:forms=encoded", 1000, shares) == List{5, 25, 25, 0});
  CHECK(answer("equal", 1000, shares) == List{2, 25, 25, 2});
  CHECK(answer("equal:forms=encoded", 420, shares) == List{4, 1, 1, 0});
}

TEST_CASE("encoded-first fills windows to a sixteenth, what is stored, what is decoded, windows") {
  using List = std::vector<Slots>;
  // Blocks of 20 bytes, 160 in an epoch; 1000 samples of 1 byte, decoded 5; promises are not
  // counted.
  engine::ShareView blocks = share_of(20, 160, 2);
  blocks.form = Form::prepared;
  blocks.slots_least = 3;
  engine::ShareView encoded = share_of(1, 1000, 2);
  encoded.form = Form::encoded;
  engine::ShareView decoded = share_of(5, 1000, 2);
  decoded.form = Form::decoded;
  const auto given = [&](Bytes capacity) {
    return answer("encoded-first", capacity, {blocks, encoded, decoded});
  };
  CHECK(given(59) == List{0, 0, 0});  // less than is promised: the engine sees to that
  CHECK(given(60) == List{3, 0, 0});
  CHECK(given(60 + 100) == List{3 + 2, 60, 0});    // a window gets half of the place at most
  CHECK(given(60 + 400) == List{3 + 10, 200, 0});  // 160 / 16
  CHECK(given(60 + 1200) == List{3 + 10, 1000, 0});
  CHECK(given(60 + 1300) == List{3 + 10, 1000, 20});
  CHECK(given(60 + 6200) == List{3 + 10, 1000, 1000});
  CHECK(given(60 + 7200) == List{3 + 60, 1000, 1000});
  CHECK(given(60 + 9200) == List{3 + 160, 1000, 1000});
  CHECK(given(1 << 20) == List{3 + 160, 1000, 1000});
  // Ranks have something in time, too.
  blocks.ranks = 3;
  CHECK(given(60 + 1200) == List{3 + 24, 720, 0});
  CHECK(given(60 + 400) == List{3 + 15, 100, 0});  // three quarters, since two jobs share it
  blocks.jobs = 1;
  CHECK(given(60 + 400) == List{3 + 10, 200, 0});
  blocks.jobs = 2;
  blocks.ranks = 100;
  CHECK(given(1 << 20) == List{3 + 160, 1000, 1000});
  blocks.ranks = 0;
  // A share that no job reads from gets its promise.
  blocks.jobs = decoded.jobs = 0;
  CHECK(given(60 + 500) == List{3, 500, 0});
  // Of two datasets the small one is kept whole, if its part lets it; others get the same for each
  // of their jobs.
  engine::ShareView larger = encoded;
  larger.slots_all = 3000;
  CHECK(answer("encoded-first", 400, {encoded, larger}) == List{200, 200});
  CHECK(answer("encoded-first", 2500, {larger, encoded}) == List{1500, 1000});
  larger.jobs = 6;
  CHECK(answer("encoded-first", 400, {encoded, larger}) == List{100, 300});
  CHECK(answer("encoded-first", 4000, {larger, encoded}) == List{3000, 1000});
  decoded.jobs = 1;
  CHECK(answer("encoded-first:forms=decoded", 400, {encoded, decoded}) == List{0, 80});
  // A form that is not kept gets its promise and the blocks made ahead, before others get more.
  blocks.jobs = 1;
  blocks.slots_ahead = 4;
  CHECK(answer("encoded-first:forms=encoded", 60 + 1000, {blocks, encoded}) == List{3 + 4, 920});
  CHECK(answer("encoded-first:forms=encoded", 60 + 50, {blocks, encoded}) == List{3 + 2, 10});
  CHECK(answer("encoded-first:forms=encoded", 60, {blocks, encoded}) == List{3, 0});
}

TEST_CASE("batchflow divides as encoded-first does until something was measured") {
  engine::ShareView blocks = share_of(10, 160, 1);
  blocks.form = Form::prepared;
  blocks.ranks = 1;
  engine::ShareView encoded = share_of(1, 1000, 1);
  encoded.form = Form::encoded;
  engine::ShareView decoded = share_of(5, 1000, 1);
  decoded.form = Form::decoded;
  CHECK(answer("batchflow", 2000, {blocks, encoded, decoded}) ==
        answer("encoded-first", 2000, {blocks, encoded, decoded}));
}

TEST_CASE("batchflow gives memory to what is measured to limit the jobs") {
  // A thousand samples a second are made of a dataset of a thousand; decoding one takes 1 ms of a
  // worker, and it has a byte as it is stored and five decoded.
  const auto shares = [] {
    engine::ShareView blocks = share_of(10, 160, 1);
    blocks.form = Form::prepared;
    blocks.ranks = 1;
    blocks.samples_all = 1000;
    blocks.made_per_s = 1000;
    engine::ShareView encoded = share_of(1, 1000, 1);
    encoded.form = Form::encoded;
    encoded.made_per_s = 1000;
    encoded.store_bytes = 1;
    engine::ShareView decoded = share_of(5, 1000, 1);
    decoded.form = Form::decoded;
    decoded.made_per_s = 1000;
    decoded.worker_s = 1e-3;
    decoded.store_bytes = 1;
    return std::vector<engine::ShareView>{blocks, encoded, decoded};
  }();
  const auto choice = policies::policy_list().choose(engine::PolicyKind::allocation, "batchflow");
  const auto divide = [&](double busy, double waits, double store) {
    engine::PlaceView place{{NodeId(1), Tier::dram, 0}, 1080, shares};
    place.now = Instant(std::chrono::seconds(100));
    place.workers = 2;
    place.busy = busy;
    place.waits_for_reads = waits;
    place.store_bytes_per_s = store;
    const auto policy = make<engine::MakeAllocation>(choice);
    const std::vector<Slots> slots = allocate(*policy, place);
    CHECK(policy->ask_again() == place.now + std::chrono::seconds(1));
    return slots;
  };
  // A rank needs eight blocks; a thousand bytes are left.
  using List = std::vector<Slots>;
  CHECK(divide(1, 0, 1000) == List{8, 0, 200});
  CHECK(divide(0.1, 0.9, 1000) == List{8, 1000, 0});
  // Workers that have time to spare leave the store as much as they can.
  CHECK(divide(0.4, 0, 1000) == List{8, 1000, 0});
  // Blocks that some job has yet to take make the window larger: 1.5 times as many, and half of two
  // lanes beside them where several jobs share it.
  std::vector<engine::ShareView> needed = shares;
  needed[0].slots_needed = 20;
  engine::PlaceView place{{NodeId(1), Tier::dram, 0}, 1080, needed};
  place.now = Instant(std::chrono::seconds(100));
  place.workers = 2;
  place.busy = 1;
  CHECK(allocate(*make<engine::MakeAllocation>(choice), place)[0] == 30);
  needed[0].jobs = 2;
  CHECK(allocate(*make<engine::MakeAllocation>(choice), place)[0] == 30 + 5);
}

// A dataset that one job reads again and again, and one twice as large that others read in orders
// of their own, for which as many bytes a second are made: half as much a byte.
TEST_CASE("batchflow gives no dataset all of the memory that others read in several orders") {
  std::vector<engine::ShareView> shares;
  const auto add = [&](std::uint32_t dataset, Form form, Slots all, double made) {
    engine::ShareView share = share_of(1, all, 1);
    share.dataset = DatasetId(dataset);
    share.share = ShareId(static_cast<std::uint32_t>(shares.size()));
    share.form = form;
    share.samples_all = all;
    share.made_per_s = made;
    share.store_bytes = 1;
    shares.push_back(share);
  };
  add(1, Form::encoded, 1000, 1000);
  add(1, Form::prepared, 1, 1000);
  add(2, Form::encoded, 2000, 1000);
  add(2, Form::prepared, 1, 1000);
  const auto of_encoded = [&] {
    const std::vector<Slots> slots = [&] {
      engine::PlaceView place{{NodeId(1), Tier::dram, 0}, 900, shares};
      place.now = Instant(std::chrono::seconds(100));
      place.workers = 1;
      place.busy = 0.1;
      const auto choice =
          policies::policy_list().choose(engine::PolicyKind::allocation, "batchflow");
      return allocate(*make<engine::MakeAllocation>(choice), place);
    }();
    return std::pair(slots[0], slots[2]);
  };
  const auto alone = of_encoded();
  CHECK(alone.second == 0);
  CHECK(alone.first > 890);
  add(2, Form::prepared, 1, 0);
  const auto several = of_encoded();
  CHECK(several.first > 500);
  CHECK(several.second > 30);
}

}  // namespace batchflow::test::allocation_test
