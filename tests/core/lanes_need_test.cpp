// How many members are still to come to a block: what is reported to eviction policies. By hand, in
// small sizes.
#include <doctest/doctest.h>

#include <vector>

#include "core/order/lanes.h"
#include "tests/core/lanes_options.h"

namespace batchflow::test::lanes_need_test {
using Kind = order::Lanes::Need::Kind;

namespace {

// The member takes its next block, which is made where it is not here.
order::BlockRef take_next(order::Lanes& lanes, order::MemberId member) {
  std::vector<order::Lanes::Candidate> here;
  for (lanes.candidates(member, here); here.empty(); lanes.candidates(member, here)) {
    const order::Lanes::Need need = lanes.next_need(member);
    if (need.kind == Kind::joined) continue;
    REQUIRE(need.kind == Kind::make);
    lanes.making(need.block);
    lanes.made(need.block);
  }
  lanes.take(member, here.front().block);
  return here.front().block;
}

std::vector<order::BlockRef> take(order::Lanes& lanes, order::MemberId member, int blocks) {
  std::vector<order::BlockRef> taken;
  for (int i = 0; i < blocks; ++i) taken.push_back(take_next(lanes, member));
  return taken;
}

// A block's users to come.
using Users = std::vector<std::uint32_t>;
Users users(const order::Lanes& lanes, const std::vector<order::BlockRef>& blocks) {
  Users all;
  for (const order::BlockRef block : blocks)
    all.push_back(lanes.needed(block) + lanes.may_join(block));
  return all;
}

// Lanes are sized by the memory there is when a job comes; without this, jobs that came before and
// after a change of it would each make every block.
TEST_CASE(
    "a strict job that comes when lanes are cut otherwise has those of the epoch it comes to") {
  order::Lanes lanes(options_of(4, 2));
  const order::MemberId first = lanes.add_strict(0, 0, 0, 2);
  const std::vector<order::BlockRef> blocks = take(lanes, first, 8);
  lanes.set_sizes({8, 1, 4});
  const order::MemberId late = lanes.add_strict(1, 0, 3, 2);  // in the middle of lane 1
  CHECK(lanes.sizes(late).lane_blocks == 2);
  CHECK(take(lanes, late, 5) == std::vector(blocks.begin() + 3, blocks.end()));
  // The next epoch is cut as lanes are now, by the member that comes first.
  lanes.begin_next_epoch(first);
  CHECK(lanes.sizes(first).lane_blocks == 4);
  const std::vector<order::BlockRef> next = take(lanes, first, 8);
  lanes.set_sizes({8, 1, 2});
  lanes.begin_next_epoch(late);
  CHECK(take(lanes, late, 8) == next);
  // Once no member is in it and none of its blocks is here, an epoch is cut anew.
  lanes.remove(first);
  lanes.remove(late);
  for (const order::BlockRef block : next) lanes.dropped(block);
  CHECK(lanes.sizes(lanes.add_strict(2, 1, 0, 2)).lane_blocks == 2);
}

}  // namespace

TEST_CASE("a strict job that is behind needs all that lies before it, not its next lane alone") {
  order::Lanes lanes(options_of(4, 2));
  const order::MemberId fast = lanes.add_strict(0, 0, 0);
  const order::MemberId slow = lanes.add_strict(1, 0, 0);
  const std::vector<order::BlockRef> blocks = take(lanes, fast, 8);
  CHECK(users(lanes, blocks) == Users(8, 1));
  for (std::uint32_t had = 1; had <= 8; ++had) {
    CHECK(take_next(lanes, slow) == blocks[had - 1]);
    Users left(8, 1);
    std::fill_n(left.begin(), had, 0);
    CHECK(users(lanes, blocks) == left);
  }
}

TEST_CASE("a strict job that comes late needs what lies before it, one that leaves nothing") {
  order::Lanes lanes(options_of(4, 2));
  const order::MemberId first = lanes.add_strict(0, 0, 0);
  const std::vector<order::BlockRef> blocks = take(lanes, first, 8);
  CHECK(users(lanes, blocks) == Users(8, 0));
  const order::MemberId late = lanes.add_strict(1, 0, 3);  // in the middle of lane 1
  CHECK(users(lanes, blocks) == Users{0, 0, 0, 1, 1, 1, 1, 1});
  const order::MemberId later = lanes.add_strict(2, 0, 5);
  CHECK(users(lanes, blocks) == Users{0, 0, 0, 1, 1, 2, 2, 2});
  lanes.remove(late);
  CHECK(users(lanes, blocks) == Users{0, 0, 0, 0, 0, 1, 1, 1});
  lanes.end_epoch(later);
  CHECK(users(lanes, blocks) == Users(8, 0));
}

TEST_CASE("a strict job comes to the epochs that follow its own, as far as it has any") {
  order::Lanes lanes(options_of(2, 2));
  const order::MemberId fast = lanes.add_strict(0, 0, 0, 3);
  const order::MemberId slow = lanes.add_strict(1, 0, 0, 2);  // epochs 0 and 1
  std::vector<std::vector<order::BlockRef>> epochs;
  for (int epoch = 0; epoch < 3; ++epoch) {
    if (epoch > 0) lanes.begin_next_epoch(fast);
    epochs.push_back(take(lanes, fast, 4));
  }
  CHECK(users(lanes, epochs[0]) == Users(4, 1));
  CHECK(users(lanes, epochs[1]) == Users(4, 1));
  CHECK(users(lanes, epochs[2]) == Users(4, 0));
  CHECK(take(lanes, slow, 4) == epochs[0]);
  CHECK(users(lanes, epochs[1]) == Users(4, 1));
  lanes.begin_next_epoch(slow);
  CHECK(take(lanes, slow, 3) == std::vector(epochs[1].begin(), epochs[1].end() - 1));
  CHECK(users(lanes, epochs[1]) == Users{0, 0, 0, 1});
  // It will come to lanes as they are cut there, whatever new generations have; to blocks of
  // another size it will not.
  const order::MemberId third = lanes.add_strict(2, 0, 0, 3);
  CHECK(users(lanes, epochs[2]) == Users(4, 1));
  lanes.set_sizes({4, 1, 4});
  CHECK(users(lanes, epochs[2]) == Users(4, 1));
  lanes.set_sizes({4, 2, 2});
  CHECK(users(lanes, epochs[2]) == Users(4, 0));
  lanes.set_sizes({4, 1, 2});
  CHECK(users(lanes, epochs[2]) == Users(4, 1));
  lanes.remove(third);
  CHECK(users(lanes, epochs[2]) == Users(4, 0));
  lanes.check_consistency();
}

TEST_CASE("a relaxed job may come to a pass while another sits in it, and half of it is here") {
  order::Lanes lanes(options_of(2, 4));
  const order::MemberId fast = lanes.add_relaxed(0);
  std::vector<order::BlockRef> first = take(lanes, fast, 3);
  CHECK(users(lanes, first) == Users(3, 0));
  const order::MemberId late = lanes.add_relaxed(1);
  CHECK(users(lanes, first) == Users(3, 1));
  for (const order::BlockRef block : {first[0], first[1]}) lanes.dropped(block);
  CHECK(users(lanes, {first[2]}) == Users{1});
  lanes.dropped(first[2]);
  const order::BlockRef last = lanes.next_need(fast).block;
  lanes.making(last);
  lanes.made(last);
  CHECK(users(lanes, {last}) == Users{1});  // only its maker: most of its pass is gone
  lanes.making(first[0]);
  CHECK(users(lanes, {last}) == Users{2});  // and it is not any more
  lanes.take(fast, last);
  CHECK(users(lanes, {last}) == Users{0});  // no member is there now
  lanes.remove(late);
  lanes.check_consistency();
}

TEST_CASE("a relaxed job does not come to a pass again that it has had") {
  order::Lanes lanes(options_of(2, 2));
  const order::MemberId a = lanes.add_relaxed(0);
  const order::MemberId b = lanes.add_relaxed(1);
  std::vector<order::BlockRef> first = take(lanes, a, 1);
  CHECK(take_next(lanes, b) == first[0]);  // and stays in the pass
  first.push_back(take_next(lanes, a));
  take(lanes, a, 2);
  lanes.begin_next_epoch(a);
  REQUIRE(lanes.generation(a) == lanes.generation(b));
  CHECK(users(lanes, first) == Users{0, 1});  // b's, and not for a's second epoch
}

TEST_CASE("the reporter of changed needs is called when there begin to be some") {
  order::Lanes lanes(options_of(2, 2));
  int calls = 0;
  lanes.on_changed_needs([&] { ++calls; });
  const order::MemberId job = lanes.add_strict(0, 0, 0);
  CHECK(calls == 0);  // nothing is here
  take(lanes, job, 2);
  lanes.visit_changed_needs(100, [](order::BlockRef) {});
  calls = 0;
  lanes.add_strict(1, 0, 0);
  CHECK(calls == 1);
  std::vector<order::BlockRef> told;
  CHECK(lanes.visit_changed_needs(100, [&](order::BlockRef block) { told.push_back(block); }));
  CHECK(told.size() == 2);
}

TEST_CASE("many strict jobs in epochs of their own: which comes to which is found some at a time") {
  constexpr std::uint32_t kJobs = 100;
  order::Lanes lanes(options_of(4, 2));
  std::vector<order::MemberId> members;
  std::vector<std::vector<order::BlockRef>> blocks;
  int told = 0;
  lanes.on_changed_needs([&] { ++told; });
  for (std::uint32_t epoch = kJobs; epoch-- > 0;) {
    members.push_back(lanes.add_strict(epoch, epoch, 0, kJobs));
    blocks.push_back(take(lanes, members.back(), 1));
    lanes.check_consistency();
  }
  // The first block of epoch e is still to be had by the e jobs of earlier epochs.
  const auto visited = [&](std::size_t limit) {
    std::size_t count = 0;
    const bool all = lanes.visit_changed_needs(limit, [&](order::BlockRef) { ++count; });
    CHECK(count <= limit);
    return all;
  };
  while (!visited(20)) {
  }
  for (std::uint32_t i = 0; i < kJobs; ++i) {
    CHECK(users(lanes, blocks[i]) == Users{kJobs - 1 - i});
  }
  // A job leaves from epoch 0: one less for each of the 99 epochs after it, and not all in one
  // call.
  told = 0;
  lanes.remove(members.back());
  CHECK(told > 0);
  CHECK(!visited(10));
  while (!visited(10)) {
  }
  for (std::uint32_t i = 0; i + 1 < kJobs; ++i) {
    CHECK(users(lanes, blocks[i]) == Users{kJobs - 2 - i});
  }
  lanes.check_consistency();
  // The job of epoch 1 goes on to epoch 2: it is in it in place of coming to it.
  lanes.end_epoch(members[kJobs - 2]);
  lanes.begin_next_epoch(members[kJobs - 2]);
  lanes.check_consistency();
  CHECK(users(lanes, blocks[kJobs - 3]) == Users{1});
}

}  // namespace batchflow::test::lanes_need_test
