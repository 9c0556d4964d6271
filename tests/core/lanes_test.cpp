// The rules of lanes one by one, by hand. Sizes are small enough to follow with a pencil.
#include "core/order/lanes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/order/position.h"
#include "tests/core/lanes_options.h"

namespace batchflow::test::lanes_test {
using Kind = order::Lanes::Need::Kind;

namespace {

order::BlockRef make(order::Lanes& lanes, order::MemberId member) {
  order::Lanes::Need need = lanes.next_need(member);
  while (need.kind == Kind::joined) need = lanes.next_need(member);
  REQUIRE(need.kind == Kind::make);
  lanes.making(need.block);
  lanes.made(need.block);
  return need.block;
}

std::vector<order::Lanes::Candidate> candidates(const order::Lanes& lanes, order::MemberId member) {
  std::vector<order::Lanes::Candidate> out;
  lanes.candidates(member, out);
  return out;
}

// What the member takes next: of what is here the first, else what is made for it.
order::BlockRef next(order::Lanes& lanes, order::MemberId member) {
  for (;;) {
    const auto here = candidates(lanes, member);
    if (!here.empty()) return here.front().block;
    const order::Lanes::Need need = lanes.next_need(member);
    if (need.kind == Kind::joined) continue;
    REQUIRE(need.kind == Kind::make);
    lanes.making(need.block);
    lanes.made(need.block);
    return need.block;
  }
}

order::BlockName take_next(order::Lanes& lanes, order::MemberId member) {
  const order::BlockRef block = next(lanes, member);
  const order::BlockName name = lanes.name(block);
  lanes.take(member, block);
  return name;
}

std::vector<std::uint32_t> distances(const order::Lanes& lanes, order::MemberId member) {
  std::vector<std::uint32_t> out;
  for (const auto& one : candidates(lanes, member)) out.push_back(one.distance);
  return out;
}

using Distances = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("one job alone has each block once, and a new generation each epoch") {
  order::Lanes lanes(options_of(5, 4));
  const order::MemberId job = lanes.add_relaxed(7);
  CHECK(lanes.tag(job) == 7);
  for (std::uint64_t generation = 0; generation < 3; ++generation) {
    std::vector<order::BlockName> had;
    for (int i = 0; i < 20; ++i) {
      CHECK(lanes.blocks_left(job) == static_cast<std::uint64_t>(20 - i));
      had.push_back(take_next(lanes, job));
      CHECK(had.back().generation == generation);
      CHECK(had.back().block == static_cast<std::uint32_t>(i % 4));  // lane after lane, in turn
      CHECK(had.back().lane == had[static_cast<std::size_t>(i / 4 * 4)].lane);
    }
    std::sort(had.begin(), had.end());
    CHECK(std::adjacent_find(had.begin(), had.end()) == had.end());
    CHECK_FALSE(lanes.in_epoch(job));
    CHECK(lanes.next_need(job).kind == Kind::nothing);
    lanes.begin_next_epoch(job);
  }
}

TEST_CASE("the last lane and the last block may be short") {
  order::Lanes::Options options;
  options.sizes = {23, 3, 3};  // 8 blocks: lanes of 3, 3, 2; the last block has 2 samples
  order::Lanes lanes(options);
  const order::MemberId job = lanes.add_relaxed(0);
  std::uint64_t samples = 0;
  while (lanes.in_epoch(job)) {
    const order::BlockRef block = next(lanes, job);
    samples += lanes.samples(block);
    lanes.take(job, block);
  }
  CHECK(samples == 23);
}

TEST_CASE("a block is made once for all that are there, and needed until the last has it") {
  order::Lanes lanes(options_of(4, 4));
  const order::MemberId first = lanes.add_relaxed(1);
  const order::BlockRef block = make(lanes, first);
  CHECK(lanes.needed(block) == 1);
  CHECK(lanes.may_join(block) == 0);
  const order::MemberId second = lanes.add_relaxed(2);
  CHECK(lanes.may_join(block) == 1);
  CHECK(lanes.next_need(second).kind == Kind::joined);
  CHECK(lanes.supply(second) == 1);
  CHECK(lanes.needed(block) == 2);
  CHECK(lanes.may_join(block) == 0);
  lanes.take(first, block);
  CHECK(lanes.needed(block) == 1);
  CHECK_FALSE(lanes.needs(first, block));
  std::vector<std::uint32_t> waiting;
  lanes.for_each_needing(block,
                         [&](order::MemberId member) { waiting.push_back(lanes.tag(member)); });
  CHECK(waiting == std::vector<std::uint32_t>{2});
  lanes.take(second, block);
  CHECK(lanes.needed(block) == 0);
  CHECK(lanes.valid(block));
}

TEST_CASE("a block in preparation is waited for, and the rule goes on to the next") {
  order::Lanes lanes(options_of(2, 4));
  const order::MemberId job = lanes.add_relaxed(0);
  const order::BlockRef first = lanes.next_need(job).block;
  CHECK(lanes.next_need(job).block == first);  // the same answer until something changes
  lanes.making(first);
  const order::BlockRef second = lanes.next_need(job).block;
  CHECK(lanes.name(second).block == 1);
  lanes.making(second);
  lanes.made(second);
  const auto here = candidates(lanes, job);
  REQUIRE(here.size() == 2);
  CHECK((!here[0].ready && here[1].ready));
  lanes.failed(first);  // absent again: it is next to be made
  CHECK(lanes.next_need(job).block == first);
  CHECK_FALSE(lanes.next_need(job).remake);
}

TEST_CASE("join what has lost at most half, what has lost least first") {
  for (const std::uint32_t lost : {2u, 3u}) {
    order::Lanes lanes(options_of(3, 4));
    const order::MemberId leader = lanes.add_relaxed(0);
    std::uint32_t lane = 0;
    for (std::uint32_t i = 0; i < lost; ++i) {
      const order::BlockRef block = next(lanes, leader);
      lane = lanes.name(block).lane;
      lanes.take(leader, block);
      lanes.dropped(block);
    }
    const order::MemberId late = lanes.add_relaxed(1);
    const order::BlockName name = lanes.name(lanes.next_need(late).block);
    CHECK(name.generation == 0);
    CHECK((name.lane == lane) == (lost == 2));
    if (lost == 2) CHECK(name.block == 2);  // what was lost comes when nothing else is left
  }
}

TEST_CASE("open the lane that feeds the hungry, else one that no other member needs") {
  order::Lanes lanes(options_of(3, 4));
  const order::MemberId a = lanes.add_relaxed(0);
  const std::uint32_t lane_a = lanes.name(make(lanes, a)).lane;
  const order::MemberId b = lanes.add_relaxed(1);
  CHECK(lanes.next_need(b).kind == Kind::joined);
  // Both have all of lane_a before them, neither is hungry; b takes it all and opens another.
  for (int i = 0; i < 4; ++i) CHECK(take_next(lanes, b).lane == lane_a);
  const order::BlockName of_b = take_next(lanes, b);
  // Now a takes lane_a: with two blocks left it is hungry, joins b's pass when it runs dry.
  for (int i = 0; i < 4; ++i) CHECK(take_next(lanes, a).lane == lane_a);
  CHECK(take_next(lanes, a) == of_b);
}

TEST_CASE("lost blocks are made again last, or first when no more lanes may be open") {
  for (const std::uint32_t most : {48u, 1u}) {
    order::Lanes::Options options = options_of(2, 2);
    options.open_lanes_most = most;
    order::Lanes lanes(options);
    const order::MemberId job = lanes.add_relaxed(0);
    const order::BlockRef lost = make(lanes, job);
    make(lanes, job);
    lanes.dropped(lost);
    const order::Lanes::Need need = lanes.next_need(job);
    CHECK(need.kind == Kind::make);
    CHECK(need.remake == (most == 1));
    CHECK((need.block == lost) == (most == 1));
    lanes.making(need.block);
    lanes.failed(need.block);
    CHECK(lanes.next_need(job).block == need.block);
    CHECK(lanes.next_need(job).remake == need.remake);  // still known as made before
  }
}

TEST_CASE("in step, out of step, and the end of a generation") {
  order::Lanes::Options options = options_of(4, 2);
  options.generation_epochs = 3;
  order::Lanes lanes(options);
  const order::MemberId a = lanes.add_relaxed(0);
  const order::MemberId b = lanes.add_relaxed(1);
  const auto whole_epoch = [&](order::MemberId member) {
    if (!lanes.in_epoch(member)) lanes.begin_next_epoch(member);
    while (lanes.in_epoch(member)) take_next(lanes, member);
    return lanes.generation(member);
  };
  const auto half_epoch = [&](order::MemberId member) {
    for (int i = 0; i < 4; ++i) take_next(lanes, member);
  };
  half_epoch(b);
  CHECK(whole_epoch(a) == 0);
  CHECK(whole_epoch(a) == 0);  // b is in mid-epoch: stay
  CHECK(whole_epoch(a) == 0);
  CHECK(whole_epoch(a) == 1);  // three epochs were spent in it
  half_epoch(b);
  CHECK(lanes.generation(b) == 0);  // a member that is in it finishes there
  CHECK(whole_epoch(b) == 2);       // no member has lanes left in 1
}

TEST_CASE("new generations are above all that were reported, and follow a strict job") {
  order::Lanes lanes(options_of(4, 2));
  lanes.observe(41);
  const order::MemberId a = lanes.add_relaxed(0);
  CHECK(lanes.generation(a) == 42);
  const order::MemberId strict = lanes.add_strict(1, 50, 0);
  while (lanes.in_epoch(a)) take_next(lanes, a);
  lanes.begin_next_epoch(a);
  CHECK(lanes.generation(a) == 50);
  CHECK(take_next(lanes, strict) == order::BlockName{50, 0, 0, 0});
  CHECK(take_next(lanes, a) == order::BlockName{50, 0, 0, 0});
  CHECK(lanes.next_need(a).block == lanes.next_need(strict).block);  // made once for both
}

TEST_CASE("a strict job takes its sequence and nothing else") {
  order::Lanes lanes(options_of(3, 4));
  const order::MemberId job = lanes.add_strict(0, 9, 6);  // resumed in the middle of lane 1
  for (std::uint32_t k = 6; k < 12; ++k)
    CHECK(take_next(lanes, job) == order::BlockName{9, k / 4, 0, k % 4});
  CHECK_FALSE(lanes.in_epoch(job));
  lanes.begin_next_epoch(job);
  CHECK(take_next(lanes, job) == order::BlockName{10, 0, 0, 0});
}

TEST_CASE("a strict job's supply ends at the first gap, and the gap is what it wants") {
  order::Lanes lanes(options_of(2, 4));
  const order::MemberId job = lanes.add_strict(0, 0, 0);
  std::vector<order::BlockRef> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(make(lanes, job));
  CHECK(lanes.supply(job) == 4);
  lanes.dropped(blocks[1]);
  CHECK(lanes.supply(job) == 1);
  CHECK(candidates(lanes, job).size() == 1);
  CHECK(lanes.next_need(job).block == blocks[1]);
  CHECK(lanes.next_need(job).remake);
}

TEST_CASE("look-ahead begins the next epoch, and the running one still comes first") {
  order::Lanes lanes(options_of(2, 2));
  const order::MemberId job = lanes.add_relaxed(0);
  std::vector<order::BlockRef> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(make(lanes, job));
  CHECK_FALSE(lanes.may_begin_next_epoch(job));
  blocks.push_back(make(lanes, job));
  CHECK(lanes.may_begin_next_epoch(job));
  lanes.begin_next_epoch(job);
  CHECK(lanes.next_epoch_begun(job));
  CHECK(lanes.next_need(job).next_epoch);
  const order::BlockRef ahead = make(lanes, job);
  CHECK(lanes.supply(job) == 5);
  lanes.dropped(blocks[3]);
  CHECK(lanes.supply(job) == 3);  // what is ahead is of no use while one is missing
  CHECK(lanes.next_need(job).block == blocks[3]);
  CHECK_FALSE(lanes.next_need(job).next_epoch);
  make(lanes, job);
  for (int i = 0; i < 4; ++i)
    CHECK(lanes.take(job, blocks[static_cast<std::size_t>(i)]) == (i == 3));
  CHECK(lanes.in_epoch(job));
  CHECK(lanes.generation(job) == 1);
  lanes.take(job, ahead);
}

TEST_CASE("a choice never moves a block by more than the window") {
  order::Lanes::Options options = options_of(2, 8);
  options.ready_window = 4;
  order::Lanes lanes(options);
  const order::MemberId job = lanes.add_relaxed(0);
  std::vector<order::BlockRef> blocks;
  for (int i = 0; i < 12; ++i) blocks.push_back(make(lanes, job));
  CHECK(distances(lanes, job) == Distances{0, 1, 2, 3});
  lanes.take(job, blocks[2]);
  CHECK(distances(lanes, job) == Distances{0, 1, 3});  // what was taken holds its place
  lanes.take(job, blocks[1]);
  lanes.take(job, blocks[3]);
  CHECK(distances(lanes, job) == Distances{0});  // now nothing else may overtake it
  lanes.take(job, blocks[0]);
  CHECK(distances(lanes, job) == Distances{0, 1, 2, 3});
  lanes.dropped(blocks[5]);  // gone: no place
  CHECK(distances(lanes, job) == Distances{0, 1, 2, 3});
  CHECK(candidates(lanes, job)[1].block == blocks[6]);
  lanes.making(blocks[5]);  // not in its turn: listed, but the span does not begin there
  lanes.take(job, blocks[4]);
  CHECK(distances(lanes, job) == Distances{0, 0, 1, 2});
}

TEST_CASE("small lanes that were finished hold their places too") {
  order::Lanes::Options options = options_of(6, 2);
  options.ready_window = 4;
  order::Lanes lanes(options);
  const order::MemberId job = lanes.add_relaxed(0);
  std::vector<order::BlockRef> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(make(lanes, job));
  for (int i = 1; i < 4; ++i) lanes.take(job, blocks[static_cast<std::size_t>(i)]);
  CHECK(distances(lanes, job) == Distances{0});
}

TEST_CASE("when pass numbers run out, jobs finish by passes that are new to them") {
  order::Lanes::Options options = options_of(2, 2);
  options.passes_most = 2;
  order::Lanes lanes(options);
  std::vector<order::MemberId> jobs;
  for (std::uint32_t i = 0; i < 5; ++i) {
    // Each has one lane and loses it for the others: passes are opened one after another.
    jobs.push_back(lanes.add_relaxed(i));
    for (int k = 0; k < 2; ++k) {
      const order::BlockRef block = next(lanes, jobs.back());
      lanes.take(jobs.back(), block);
      if (lanes.valid(block)) lanes.dropped(block);
    }
  }
  for (const order::MemberId job : jobs) {
    while (lanes.in_epoch(job)) CHECK(take_next(lanes, job).pass < 2);
    const std::uint64_t before = lanes.generation(job);
    lanes.begin_next_epoch(job);
    CHECK(lanes.generation(job) > before);
  }
  lanes.check_consistency();
}

TEST_CASE("a job goes on from its position in a service that knows nothing") {
  order::Lanes first(options_of(4, 4));
  const order::MemberId before = first.add_relaxed(0);
  order::LanePosition recorded;
  for (int i = 0; i < 7; ++i) {
    const order::BlockRef block = next(first, before);
    recorded.record(first.name(block), first.sizes(block));
    first.take(before, block);
  }
  const order::LanePosition position = first.position(before);
  CHECK(position.passes == recorded.passes);
  CHECK(position.had == recorded.had);
  REQUIRE(position.open.size() == 1);
  CHECK(position.open[0].had == recorded.open[0].had);

  order::Lanes second(options_of(3, 2));  // of other sizes: the epoch keeps its own
  const order::MemberId after = second.add_relaxed(0, recorded);
  CHECK(second.blocks_left(after) == 9);
  CHECK(second.find(after, {0, recorded.open[0].lane, 0, 3}).block == 3);
  CHECK(second.find(after, {0, recorded.open[0].lane, 1, 3}).is_none());
  for (int i = 0; i < 9; ++i) {
    const order::BlockRef block = next(second, after);
    recorded.record(second.name(block), second.sizes(block));
    second.take(after, block);
  }
  CHECK(recorded.epoch_done());
  second.begin_next_epoch(after);
  CHECK(second.generation(after) == 1);
  CHECK(second.sizes(after).lane_blocks == 2);
}

TEST_CASE("positions that no job can be at are told apart") {
  order::Lanes lanes(options_of(4, 4));
  const order::MemberId job = lanes.add_relaxed(0);
  for (int i = 0; i < 7; ++i) take_next(lanes, job);
  const order::LanePosition good = lanes.position(job);
  CHECK(good.consistent(254));
  const auto wrong = [&](auto change) {
    order::LanePosition position = good;
    change(position);
    return !position.consistent(254);
  };
  CHECK(wrong([](order::LanePosition& p) { p.passes.pop_back(); }));
  CHECK(wrong([](order::LanePosition& p) { p.had = Bitmap(3); }));
  CHECK(wrong([](order::LanePosition& p) { p.open.push_back(p.open[0]); }));
  CHECK(wrong([](order::LanePosition& p) { p.open[0].lane = 4; }));
  CHECK(wrong([](order::LanePosition& p) { p.open[0].pass = 1; }));
  CHECK(wrong([](order::LanePosition& p) { p.open[0].had = Bitmap(5); }));
  CHECK(wrong([](order::LanePosition& p) { p.open[0].had = Bitmap(4, true); }));
  CHECK(wrong([](order::LanePosition& p) { p.generation = UINT64_MAX; }));
  CHECK(wrong(
      [](order::LanePosition& p) { std::replace(p.passes.begin(), p.passes.end(), 0, 254); }));
  CHECK(
      wrong([](order::LanePosition& p) { std::replace(p.passes.begin(), p.passes.end(), 1, 0); }));
}

TEST_CASE("what comes from outside is refused where lanes could not go on from it") {
  order::Position::Fields fields;
  fields.order = Order::relaxed;
  fields.samples = 16;
  fields.lanes.record({0, 0, 0, 0}, {16, 1, 4});
  fields.consumed = 1;
  std::string problem;
  CHECK(order::Position::from(fields, problem));
  fields.lanes.passes[2] = 254;  // not had yet, and no pass left
  CHECK_FALSE(order::Position::from(fields, problem));
  fields.lanes.passes[2] = 253;
  CHECK(order::Position::from(fields, problem));
  fields.lanes.generation = UINT64_MAX;
  CHECK_FALSE(order::Position::from(fields, problem));
}

TEST_CASE("an epoch may end without its tail") {
  order::Lanes lanes(options_of(2, 4));
  const order::MemberId job = lanes.add_relaxed(0);
  const order::BlockRef block = next(lanes, job);
  lanes.take(job, block);
  lanes.end_epoch(job);
  CHECK_FALSE(lanes.in_epoch(job));
  CHECK(lanes.position(job).epoch_done());
  CHECK(lanes.needed(block) == 0);
  lanes.begin_next_epoch(job);
  CHECK(lanes.generation(job) == 1);
  lanes.check_consistency();
}

TEST_CASE("nothing is kept for jobs that have left, but blocks that are here") {
  order::Lanes lanes(options_of(8, 4));
  const order::MemberId a = lanes.add_relaxed(0);
  const order::MemberId b = lanes.add_relaxed(1);
  const order::BlockRef block = make(lanes, a);
  const order::BlockRef started = lanes.next_need(a).block;
  lanes.making(started);
  lanes.next_need(b);
  lanes.remove(a);
  CHECK(lanes.needed(block) == 1);
  lanes.remove(b);
  CHECK(lanes.needed(block) == 0);
  CHECK(lanes.members() == 0);
  CHECK(lanes.open_passes() == 1);
  lanes.dropped(block);
  CHECK(lanes.valid(started));
  lanes.failed(started);
  CHECK_FALSE(lanes.valid(started));
  CHECK(lanes.open_passes() == 0);
  CHECK(lanes.generations() == 0);
}

}  // namespace batchflow::test::lanes_test
