#include "core/order/live_epoch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "core/base/random.h"
#include "core/order/position_bytes.h"
#include "core/order/position_json.h"

namespace batchflow::test::live_epoch_test {

namespace {

using order::Draw;
using order::LiveEpoch;
using order::Position;
using order::Slice;

constexpr order::KeyRoot kRoot{7, 3};

std::vector<Draw> draws_of(LiveEpoch& epoch, std::uint64_t first, std::size_t count) {
  std::vector<Draw> draws(count);
  epoch.fill(first, draws);
  return draws;
}

std::vector<std::uint64_t> ids(const std::vector<Draw>& draws) {
  std::vector<std::uint64_t> ids;
  for (const Draw& draw : draws) ids.push_back(draw.sample.value);
  return ids;
}

}  // namespace

TEST_CASE("a step has the next records, in turn over its ranks") {
  LiveEpoch epoch(kRoot, 1, 40, 0, 2, 3, {10, 0});
  CHECK(!epoch.has(0));
  epoch.decide(6, 0);
  epoch.decide(6, 0);
  CHECK(epoch.has(11));
  CHECK(!epoch.has(12));
  CHECK(ids(draws_of(epoch, 0, 12)) ==
        std::vector<std::uint64_t>{40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51});
  CHECK(epoch.next() == 52);
  CHECK(epoch.fills() == 0);
}

TEST_CASE("a step that is short of records is filled evenly, by keyed draws from the last ones") {
  LiveEpoch epoch(kRoot, 1, 40, 5, 2, 4, {10, 0});
  epoch.decide(3, 0);
  const std::vector<Draw> draws = draws_of(epoch, 0, 8);
  // floor(i * 3 / 2): one record for the first rank, two for the second.
  CHECK(draws[0] == Draw{SampleId(40), 0});
  CHECK(draws[4] == Draw{SampleId(41), 0});
  CHECK(draws[5] == Draw{SampleId(42), 0});
  std::uint64_t fill = 5;
  for (const std::size_t at : {1, 2, 3, 6, 7}) {
    CAPTURE(at);
    Random random(hash(12, kRoot.dataset_version, kRoot.seed, fill));
    CHECK(draws[at] == Draw{SampleId(30 + random.below(10)), 1 + fill});
    ++fill;
  }
  CHECK(epoch.next() == 43);
  CHECK(epoch.fills() == 10);
}

TEST_CASE("fills come from what is still there, and each of it as often") {
  LiveEpoch epoch(kRoot, 1, 40, 0, 1, 1000, {30, 0});
  CHECK(!epoch.can_fill(40));
  CHECK(epoch.can_fill(39));
  epoch.decide(0, 35);
  std::vector<std::uint64_t> counts(5);
  for (const Draw& draw : draws_of(epoch, 0, 1000)) {
    REQUIRE(draw.sample.value >= 35);
    REQUIRE(draw.sample.value < 40);
    ++counts[draw.sample.value - 35];
  }
  // 200 is expected of each, with a deviation of 13.
  for (const std::uint64_t count : counts) CHECK(std::abs(static_cast<double>(count) - 200) < 65);
  CHECK(!LiveEpoch(kRoot, 1, 40, 0, 1, 8, {0, 0}).can_fill(0));
}

TEST_CASE(
    "a job that rehearses has so many fills in each batch, once there is a record to fill with") {
  LiveEpoch epoch(kRoot, 1, 0, 0, 2, 4, {10, 3});
  CHECK(epoch.records_most(0) == 8);  // the first step has new records alone
  epoch.decide(8, 0);
  CHECK(ids(draws_of(epoch, 0, 8)) == std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(epoch.records_most(0) == 2);
  epoch.decide(2, 0);
  const std::vector<Draw> draws = draws_of(epoch, 8, 8);
  CHECK(draws[0] == Draw{SampleId(8), 0});
  CHECK(draws[4] == Draw{SampleId(9), 0});
  std::uint64_t fill = 0;
  for (const std::size_t at : {1, 2, 3, 5, 6, 7}) {
    CAPTURE(at);
    Random random(hash(12, kRoot.dataset_version, kRoot.seed, fill));
    CHECK(draws[at] == Draw{SampleId(random.below(8)), 1 + fill});
    ++fill;
  }
  CHECK(epoch.next() == 10);
  CHECK(epoch.fills() == 6);
  epoch.decide(1, 0);  // fewer have come
  CHECK(epoch.fills() == 13);
  // What is there is gone: the next step is a whole one.
  CHECK(epoch.records_most(11) == 8);
  epoch.end(1);
  CHECK(epoch.end_index() == 25);
  CHECK(!LiveEpoch(kRoot, 1, 0, 0, 1, 4, {0, 3}).can_fill(0));
}

TEST_CASE("a reservoir has what algorithm R has, however it is shown its records") {
  const order::ReservoirName name{kRoot.seed, 100, 10};
  order::Reservoir at_once(kRoot.dataset_version, name);
  order::Reservoir in_parts(kRoot.dataset_version, name);
  std::vector<std::uint32_t> expected;
  for (std::uint64_t end = 100; end <= 1000; ++end) {
    CHECK(in_parts.show(end));
    CHECK(in_parts.next() == end);
    CHECK(std::vector(in_parts.records().begin(), in_parts.records().end()) == expected);
    const std::uint64_t shown = end - 100;
    const auto record = static_cast<std::uint32_t>(end);
    if (shown < 10) {
      expected.push_back(record);
    } else {
      Random random(hash(14, kRoot.dataset_version, kRoot.seed, end));
      const std::uint64_t slot = random.below(shown + 1);
      if (slot < 10) expected[slot] = record;
    }
  }
  CHECK(!at_once.show(1000, 400));
  CHECK(at_once.next() == 500);
  CHECK(at_once.show(1000, 500));
  CHECK(std::ranges::equal(at_once.records(), in_parts.records()));
}

// The example of docs/order.md, of the first seed for which the records draw these slots.
TEST_CASE("a reservoir of two slots is shown five records") {
  const auto draws = [](std::uint64_t seed, std::uint64_t record) {
    return Random(order::reservoir_key({7, seed}, record)).below(record + 1);
  };
  std::uint64_t seed = 0;
  while (draws(seed, 2) != 1 || draws(seed, 3) != 3 || draws(seed, 4) != 0) ++seed;
  order::Reservoir reservoir(7, {seed, 0, 2});
  const std::vector<std::vector<std::uint32_t>> expected{{}, {0}, {0, 1}, {0, 2}, {0, 2}, {4, 2}};
  for (std::uint64_t shown = 0; shown < expected.size(); ++shown) {
    CAPTURE(shown);
    reservoir.show(shown);
    CHECK(std::ranges::equal(reservoir.records(), expected[shown]));
  }
}

namespace {

// How far the counts of 50 records are from equal ones, by chi-square with 49 degrees of freedom.
// Of each of `tries` reservoirs `each` different records were counted.
double unevenness(const std::vector<std::uint64_t>& counts, double tries, double each) {
  const auto records = static_cast<double>(counts.size());
  const double part = each / records;
  double sum = 0;
  for (const std::uint64_t count : counts)
    sum += std::pow(static_cast<double>(count) - tries * part, 2) / (tries * part * (1 - part));
  return sum * (records - 1) / records;
}
constexpr double kUneven49 = 111.6;  // docs/order.md, "Tests"

}  // namespace

TEST_CASE("each record is as likely as any other to be in a reservoir, and to be a fill") {
  constexpr std::uint64_t kSeeds = 20'000;
  constexpr std::uint64_t kRecords = 50;
  constexpr std::uint32_t kSlots = 10;
  std::vector<std::uint64_t> kept(kRecords);
  std::vector<std::uint64_t> filled(kRecords);
  std::vector<std::uint64_t> always(kRecords);  // where each record takes some slot
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    order::Reservoir reservoir(7, {seed, 0, kSlots});
    reservoir.show(kRecords);
    for (const std::uint32_t record : reservoir.records()) ++kept[record];

    LiveEpoch epoch({7, seed}, 1, kRecords, 0, 1, 2, {0, 1, kSlots, 0});
    REQUIRE(epoch.settle(kRecords));
    epoch.decide(1, kRecords);
    ++filled[draws_of(epoch, 1, 1)[0].sample.value];

    std::vector<std::uint64_t> slots(kSlots);
    for (std::uint64_t record = 0; record < kRecords; ++record) {
      Random random(order::reservoir_key({7, seed}, record));
      slots[record < kSlots ? record : random.below(kSlots)] = record;
    }
    for (const std::uint64_t record : slots) ++always[record];
  }
  CHECK(unevenness(kept, kSeeds, kSlots) < kUneven49);
  CHECK(unevenness(filled, kSeeds, 1) < kUneven49);
  CHECK(unevenness(always, kSeeds, kSlots) > kUneven49);  // the test would see it
}

TEST_CASE("fills come from a reservoir as of their step, also where the job goes on") {
  const order::Filling filling{0, 2, 5, 40};
  LiveEpoch epoch(kRoot, 1, 40, 0, 1, 4, filling);
  CHECK(!epoch.can_fill(0));
  CHECK(epoch.records_most(0) == 4);
  epoch.decide(4, 40);
  for (int step = 0; step < 20; ++step) epoch.decide(2, 40);
  for (std::uint64_t step = 1; step <= 20; ++step) {
    CAPTURE(step);
    const std::uint64_t first = 44 + 2 * (step - 1);
    order::Reservoir reservoir(kRoot.dataset_version, {kRoot.seed, 40, 5});
    reservoir.show(first);
    const std::vector<Draw> draws = draws_of(epoch, 4 * step, 4);
    CHECK(draws[0] == Draw{SampleId(first), 0});
    CHECK(draws[1] == Draw{SampleId(first + 1), 0});
    for (std::uint64_t i = 0; i < 2; ++i) {
      const std::uint64_t fill = 2 * (step - 1) + i;
      Random random(hash(12, kRoot.dataset_version, kRoot.seed, fill));
      const std::uint64_t slot = random.below(reservoir.records().size());
      CHECK(draws[2 + i] == Draw{SampleId(reservoir.records()[slot]), 1 + fill});
    }
  }
  LiveEpoch again(kRoot, 2, 64, 20, 1, 4, filling);  // behind step 10
  CHECK(!again.settle(20));
  CHECK(again.settle(4));
  again.decide(2, 60);
  CHECK(draws_of(again, 0, 4) == draws_of(epoch, 44, 4));
}

TEST_CASE("a first step that only stands short is filled from its own records") {
  LiveEpoch epoch(kRoot, 1, 40, 0, 2, 4, {10, 0});
  CHECK(!epoch.can_fill(40));
  CHECK(epoch.can_fill(40, 1));
  CHECK(!LiveEpoch(kRoot, 1, 40, 0, 2, 4, {0, 0}).can_fill(40, 1));
  epoch.decide(3, 40);
  const std::vector<Draw> draws = draws_of(epoch, 0, 8);
  CHECK(draws[0] == Draw{SampleId(40), 0});
  CHECK(draws[4] == Draw{SampleId(41), 0});
  CHECK(draws[5] == Draw{SampleId(42), 0});
  std::uint64_t fill = 0;
  for (const std::size_t at : {1, 2, 3, 6, 7}) {
    CAPTURE(at);
    Random random(hash(12, kRoot.dataset_version, kRoot.seed, fill));
    CHECK(draws[at] == Draw{SampleId(40 + random.below(3)), 1 + fill});
    ++fill;
  }
  CHECK(epoch.next() == 43);
  CHECK(epoch.fills() == 5);
  epoch.decide(8, 40);
  CHECK(ids(draws_of(epoch, 8, 2)) == std::vector<std::uint64_t>{43, 44});
}

TEST_CASE("the last step is short, and its last block is filled up") {
  LiveEpoch epoch(kRoot, 1, 0, 0, 2, 4, {10, 0});
  epoch.decide(8, 0);
  epoch.end(3);
  CHECK(epoch.has_ended());
  CHECK(epoch.end_index() == 11);
  CHECK(ids(draws_of(epoch, 8, 4)) == std::vector<std::uint64_t>{8, 9, 10, 8});
  LiveEpoch whole(kRoot, 1, 0, 0, 2, 4, {10, 0});
  whole.decide(8, 0);
  whole.end(0);
  CHECK(whole.end_index() == 8);
  CHECK(!whole.has(8));
}

TEST_CASE("a slice is cut where fills begin") {
  LiveEpoch epoch(kRoot, 1, 40, 0, 2, 4, {10, 0});
  epoch.decide(3, 0);
  Slice slice;
  slice.to = 4;
  std::vector<Slice> out;
  epoch.split(4, slice, out);
  REQUIRE(out.size() == 2);
  CHECK(out[0].from == 0);
  CHECK(out[0].to == 2);
  CHECK(!out[0].rehearsed);
  CHECK(out[1].from == 2);
  CHECK(out[1].to == 4);
  CHECK(out[1].rehearsed);
}

TEST_CASE("what is committed is forgotten, and what is not stays as it was decided") {
  LiveEpoch epoch(kRoot, 1, 0, 0, 1, 4, {10, 0});
  for (int step = 0; step < 5; ++step) epoch.decide(4, 0);
  const std::vector<Draw> before = draws_of(epoch, 12, 8);
  epoch.forget(12);
  CHECK(!epoch.has(8));
  CHECK(epoch.steps() == 5);
  CHECK(draws_of(epoch, 12, 8) == before);
}

TEST_CASE("steps of any sizes have each record once, whatever is resumed where") {
  Random random(4);
  std::uint64_t next = 0;
  std::uint64_t fills = 0;
  std::vector<bool> seen(4000, false);
  std::set<std::pair<std::uint64_t, std::uint64_t>> visits;
  while (next < 3900) {
    const auto ranks = static_cast<std::uint32_t>(1 + random.below(4));
    const auto batch = static_cast<std::uint32_t>(1 + random.below(6));
    const auto rehearsed = static_cast<std::uint32_t>(random.below(batch));
    LiveEpoch epoch(kRoot, 1, next, fills, ranks, batch, {50, rehearsed});
    for (std::uint64_t steps = random.below(4); steps > 0; --steps) {
      const std::uint64_t whole = epoch.step_samples();
      const bool fill = epoch.can_fill(0) && random.below(2) == 0;
      const std::uint64_t most = epoch.records_most(0);
      const std::uint64_t records = fill ? random.below(most) : most;
      const std::uint64_t first = epoch.steps() * whole;
      epoch.decide(records, 0);
      for (const Draw& draw : draws_of(epoch, first, whole)) {
        CHECK(visits.emplace(draw.sample.value, draw.occurrence).second);
        if (draw.occurrence != 0) continue;
        REQUIRE(draw.sample.value < seen.size());
        CHECK(!seen[draw.sample.value]);
        seen[draw.sample.value] = true;
      }
      // Only committed steps move the position.
      next = epoch.next();
      fills = epoch.fills();
    }
  }
  for (std::uint64_t record = 0; record < next; ++record) CHECK(seen[record]);
}

TEST_CASE("blocks cut a batch evenly") {
  CHECK(order::live_block_samples(32, 4096) == 32);
  CHECK(order::live_block_samples(32, 20) == 16);
  CHECK(order::live_block_samples(7, 4) == 1);
  CHECK(order::live_block_samples(1, 0) == 1);
}

TEST_CASE("blocks are larger than was asked for where a batch would have too many of them") {
  CHECK(order::live_block_samples(997, 16) == 1);  // a prime number of blocks that is not too large
  CHECK(order::live_block_samples(1031, 16) == 1031);
  CHECK(order::live_block_samples(2 * 1031, 1024) == 1031);
  CHECK(order::live_block_samples(4093, 512) == 4093);
  CHECK(order::live_block_samples(1'000'000, 16) == 1000);
  // Nothing cuts it that is small enough.
  CHECK(order::live_block_samples(4099, 1024) == 1);
  CHECK(order::live_block_samples(2 * 4099, 1024) == 2);
  for (std::uint32_t batch = 1; batch < 4096; ++batch) {
    for (const std::uint32_t most : {1u, 16u, 1024u, 4096u}) {
      const std::uint32_t block = order::live_block_samples(batch, most);
      REQUIRE(batch % block == 0);
      REQUIRE(batch / block <= order::kLiveBlocksOfBatchMost);
      REQUIRE(order::live_block_samples(batch, block) == block);
    }
  }
}

TEST_CASE("a position of a live order counts records and fills, in both of its forms") {
  Position position = Position::live(9, 1000, 0, 100);
  CHECK(position.next_record() == 100);
  Slice records;
  records.to = 6;
  Slice fills;
  fills.from = 6;
  fills.to = 8;
  fills.rehearsed = true;
  CHECK(position.apply(std::vector{records, fills}) == "");
  CHECK(position.next_record() == 106);
  CHECK(position.fields().rehearsed == 2);
  std::vector<std::byte> bytes;
  encode(position, bytes);
  std::string problem;
  const auto again = order::decode_position(bytes, problem);
  CHECK(problem == "");
  REQUIRE(again);
  CHECK(to_json(*again) == to_json(position));
  const auto from_json = order::position_from_json(to_json(position), problem);
  CHECK(problem == "");
  REQUIRE(from_json);
  CHECK(from_json->next_record() == 106);
  position.finish_epoch();
  CHECK(position.next_record() == 106);
  CHECK(position.consumed() == 0);
}

TEST_CASE("a position that no live job can be at is refused") {
  std::string problem;
  Position::Fields fields;
  fields.order = Order::live;
  fields.samples = 100;
  fields.first = 60;
  fields.consumed = 41;
  CHECK(!Position::from(fields, problem));
  CHECK(problem == "41 samples consumed of 40");
  fields.consumed = 0;
  fields.first = 101;
  CHECK(!Position::from(fields, problem));
  fields.order = Order::strict;
  fields.first = 1;
  CHECK(!Position::from(fields, problem));
  CHECK(!order::position_from_json(
      R"({"v":1,"order":"live","dataset":"0000000000000009","samples":10,"seed":0,"epoch":0,"consumed":0})",
      problem));
  CHECK(problem == "a position lacks first");
}

}  // namespace batchflow::test::live_epoch_test
