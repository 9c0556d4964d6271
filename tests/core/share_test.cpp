#include "core/engine/share.h"

#include <doctest/doctest.h>

#include <deque>
#include <fstream>
#include <functional>

#include "core/base/random.h"

namespace batchflow::test::share_test {

namespace {

// A FIFO that can be told to answer anything.
class Canary final : public engine::EvictionPolicy {
 public:
  using Answer = std::function<ItemId()>;

  void hit(const engine::Access&) override { ++hits; }
  engine::Admission missed(const engine::Access&) override { return admission; }
  void inserted(const engine::Access& access) override { queue.push_back(access.item); }
  ItemId victim(const engine::Access& newcomer) override {
    ++asked;
    asked_for_no_item = newcomer.item.is_none();
    if (lie) return lie();
    return queue.empty() ? ItemId::none() : queue.front();
  }
  void removed(ItemId item, engine::Removal) override { std::erase(queue, item); }
  void pinned(ItemId item) override {
    std::erase(queue, item);
    aside.push_back(item);
  }
  void unpinned(ItemId item) override {
    std::erase(aside, item);
    queue.push_front(item);
  }
  void resized(Slots) override {}
  void grow(std::size_t items) override { grown_to = items; }
  void forget(ItemId) override { ++forgotten; }

  engine::Admission admission = engine::Admission::insert;
  Answer lie;
  std::deque<ItemId> queue;
  std::vector<ItemId> aside;
  int hits = 0, asked = 0, forgotten = 0;
  bool asked_for_no_item = false;
  std::size_t grown_to = 0;
};

struct Fixture {
  explicit Fixture(Slots capacity = 3, std::size_t items = 10) {
    auto policy = std::make_unique<Canary>();
    canary = policy.get();
    share = std::make_unique<engine::Share>(items, capacity, std::move(policy),
                                            engine::ItemNumbers::for_items(items));
  }
  engine::Share::Result access(std::uint32_t item, Slots slots = 1) {
    evicted.clear();
    return share->access({ItemId(item), slots}, evicted);
  }
  bool shrink(std::size_t limit) { return share->shrink(limit, evicted); }
  void fill() {
    for (std::uint32_t item = 0; share->used() < share->capacity(); ++item) access(item);
  }
  Canary* canary;
  std::unique_ptr<engine::Share> share;
  std::vector<ItemId> evicted;
};

using Result = engine::Share::Result;

}  // namespace

TEST_CASE("a share counts hits, misses, slots and evictions") {
  Fixture f(4);
  CHECK(f.access(1, 2) == Result::inserted);
  CHECK(f.access(1, 9) == Result::hit);  // the size of a resident is frozen
  CHECK(f.share->slots(ItemId(1)) == 2);
  CHECK(f.access(2, 2) == Result::inserted);
  CHECK(f.access(3, 3) == Result::inserted);
  CHECK(f.evicted == std::vector{ItemId(1), ItemId(2)});
  CHECK(f.access(4, 5) == Result::bypassed);  // larger than the share
  CHECK(f.evicted.empty());
  const engine::ShareCounters& counters = f.share->counters();
  CHECK(counters.hits == 1);
  CHECK(counters.misses == 4);
  CHECK(counters.slots_requested == 2 + 9 + 2 + 3 + 5);
  CHECK(counters.slots_missed == 2 + 2 + 3 + 5);
  CHECK(counters.insertions == 3);
  CHECK(counters.evictions == 2);
  CHECK(counters.refused == 0);
  CHECK(f.share->used() == 3);
  CHECK(f.share->slots(ItemId(3)) == 3);
}

TEST_CASE("a wrong proposal is refused, counted, and changes nothing") {
  struct Lie {
    engine::Refused reason;
    ItemId answer;
  };
  const Lie lies[] = {{engine::Refused::no_victim, ItemId::none()},
                      {engine::Refused::out_of_range, ItemId(10)},
                      {engine::Refused::not_resident, ItemId(7)},
                      {engine::Refused::pinned, ItemId(1)}};
  for (const Lie& lie : lies) {
    CAPTURE(engine::refused_name(lie.reason));
    Fixture f;
    f.fill();
    f.share->pin(ItemId(1));
    f.canary->lie = [&] { return lie.answer; };
    CHECK(f.access(5) == Result::bypassed);
    CHECK(f.evicted.empty());
    CHECK(f.share->used() == 3);
    CHECK(!f.share->resident(ItemId(5)));
    CHECK(f.share->counters().refused == 1);
    CHECK(f.share->counters().last_refused == lie.reason);
    CHECK(f.share->counters().refused_by_reason[static_cast<std::size_t>(lie.reason)] == 1);
    // What must be let in is let in: the lowest unpinned id leaves.
    CHECK(f.share->insert_forced({ItemId(5)}, f.evicted));
    CHECK(f.evicted == std::vector{ItemId(0)});
    CHECK(f.canary->asked_for_no_item);
    CHECK(f.share->counters().refused == 2);
    // And so it is when the share must shrink.
    f.evicted.clear();
    f.share->set_capacity(1);
    CHECK(f.shrink(9));
    CHECK(f.evicted == std::vector{ItemId(2), ItemId(5)});
    CHECK(f.share->pinned(ItemId(1)));
  }
}

TEST_CASE("naming no victim is no fault when all are pinned, and no policy is asked") {
  Fixture f;
  f.fill();
  for (std::uint32_t item = 0; item < 3; ++item) f.share->pin(ItemId(item));
  CHECK(f.share->evictable() == 0);
  CHECK(f.access(5) == Result::bypassed);
  CHECK(!f.share->insert_forced({ItemId(5)}, f.evicted));
  f.share->set_capacity(0);
  CHECK(f.shrink(9));
  CHECK(f.evicted.empty());
  CHECK(f.canary->asked == 0);
  CHECK(f.share->counters().refused == 0);
}

TEST_CASE("an item that cannot fit beside the pinned evicts nothing") {
  Fixture f(4);
  f.access(0, 2);
  f.access(1, 2);
  f.share->pin(ItemId(0));
  CHECK(f.access(2, 3) == Result::bypassed);
  CHECK(f.evicted.empty());
  CHECK(f.access(2, 2) == Result::inserted);
  CHECK(f.evicted == std::vector{ItemId(1)});
}

TEST_CASE("pins are counted") {
  Fixture f;
  f.fill();
  f.share->pin(ItemId(0));
  f.share->pin(ItemId(0));
  f.share->unpin(ItemId(0));
  CHECK(f.share->pinned(ItemId(0)));
  CHECK(f.share->evictable() == 2);
  f.access(5);
  CHECK(f.evicted == std::vector{ItemId(1)});
  f.share->unpin(ItemId(0));
  CHECK(!f.share->pinned(ItemId(0)));
  f.access(6);
  CHECK(f.evicted == std::vector{ItemId(0)});
  f.share->pin(ItemId(5));
  f.share->pin(ItemId(5));
  f.share->remove(ItemId(5), engine::Removal::invalidated);  // the pins go with it
  CHECK(!f.share->pinned(ItemId(5)));
  CHECK(f.share->evictable() == f.share->used());
}

TEST_CASE("admission: bypass, making room for nothing, trimming") {
  Fixture f;
  f.fill();
  f.canary->admission = engine::Admission::bypass;
  CHECK(f.access(5) == Result::bypassed);
  CHECK(f.evicted.empty());
  f.canary->admission = engine::Admission::make_room;
  CHECK(f.access(5) == Result::bypassed);
  CHECK(f.evicted == std::vector{ItemId(0)});
  CHECK(f.access(5) == Result::bypassed);  // there is room now
  CHECK(f.evicted.empty());
  f.access(6);
  f.canary->admission = engine::Admission::trim_and_insert;
  f.canary->lie = [&] { return f.share->used() > 1 ? f.canary->queue.front() : ItemId::none(); };
  CHECK(f.access(7) == Result::inserted);
  CHECK(f.evicted == std::vector{ItemId(1)});
  CHECK(f.share->counters().refused == 0);
}

TEST_CASE("a share shrinks in slices and lets in only what it must meanwhile") {
  Fixture f(8);
  f.fill();
  f.share->set_capacity(3);
  CHECK(f.access(9) == Result::bypassed);
  CHECK(f.evicted.empty());
  CHECK(!f.shrink(2));
  CHECK(f.evicted.size() == 2);
  CHECK(f.access(7) == Result::hit);
  CHECK(f.shrink(100));
  CHECK(f.share->used() == 3);
  CHECK(f.access(9) == Result::inserted);
}

TEST_CASE("a new policy adopts the residents in slices while the old one answers") {
  Fixture f(40, 500);
  for (std::uint32_t item = 0; item < 400; item += 10) f.access(item);
  auto next = std::make_unique<Canary>();
  Canary* newcomer = next.get();
  f.share->swap_policy(std::move(next));
  CHECK(f.share->adopting());
  std::vector<ItemId> adopted;
  CHECK(!f.share->adopt(10, &adopted));
  CHECK(adopted.size() <= 10);
  f.access(5);  // below what was shown: both hear of it; the old one names the victim
  CHECK(f.evicted == std::vector{ItemId(0)});
  CHECK(newcomer->queue.back() == ItemId(5));
  f.access(495);  // beyond: the new one will meet it later
  CHECK(newcomer->queue.back() == ItemId(5));
  f.access(5);
  CHECK(newcomer->hits == 1);
  for (int slices = 0; f.share->adopting(); ++slices) {
    REQUIRE(slices < 100);
    f.share->adopt(10);
  }
  CHECK(newcomer->queue.size() == f.share->residents());
  newcomer->lie = [] { return ItemId(495); };
  f.access(6);
  CHECK(f.evicted == std::vector{ItemId(495)});
}

TEST_CASE("items from before the engine count until they leave, one by one") {
  std::uint64_t all = 0;
  Fixture other(3);
  other.access(1);
  other.share->note_from_before(ItemId(1), &all);
  {
    Fixture fixture(3);
    for (const std::uint32_t item : {0u, 1u, 2u}) fixture.access(item);
    for (const std::uint32_t item : {0u, 2u, 2u})
      fixture.share->note_from_before(ItemId(item), &all);
    CHECK(fixture.share->from_before() == 2);
    CHECK(all == 3);
    fixture.access(3);  // the first to come leaves
    CHECK(fixture.share->from_before() == 1);
    fixture.access(0);  // it comes back as any other, and 1 leaves
    CHECK(fixture.share->from_before() == 1);
    fixture.share->remove(ItemId(2), engine::Removal::invalidated);
    CHECK(fixture.share->from_before() == 0);
    CHECK(all == 1);
    fixture.share->note_from_before(ItemId(0), &all);
    CHECK(all == 2);
  }
  CHECK(all == 1);  // a share that ends has none
  other.share->remove(ItemId(1), engine::Removal::invalidated);
  CHECK(all == 0);
}

TEST_CASE("a share can learn of more items") {
  Fixture f(2, 3);
  f.fill();
  f.share->grow(200);
  CHECK(f.canary->grown_to == 200);
  CHECK(f.access(199, 2) == Result::inserted);
  CHECK(f.share->slots(ItemId(199)) == 2);
  CHECK(f.share->residents() == 1);
  f.share->remove(ItemId(199), engine::Removal::invalidated);
  f.share->forget(ItemId(199));
  CHECK(f.canary->forgotten == 1);
  f.share->grow(5000);
  CHECK(f.share->insert_forced({ItemId(4999), 2}, f.evicted));
  f.canary->lie = [] { return ItemId::none(); };
  CHECK(f.share->insert_forced({ItemId(3), 1}, f.evicted));  // the fallback finds the last id, too
  CHECK(f.evicted.back() == ItemId(4999));
}

TEST_CASE("a policy hears of a pinned item once, when it names it, until the item is free") {
  Fixture f(4);
  f.fill();
  for (const std::uint32_t item : {0, 1, 2}) f.share->pin(ItemId(item));
  CHECK(f.canary->aside.empty());  // not before it is asked
  f.access(5);
  CHECK(f.evicted == std::vector{ItemId(3)});
  CHECK(f.canary->aside == std::vector{ItemId(0), ItemId(1), ItemId(2)});
  CHECK(f.canary->asked == 4);
  f.access(6);
  CHECK(f.canary->asked == 5);  // nothing walks over the three again
  CHECK(f.evicted == std::vector{ItemId(5)});
  // What is put aside is the policy's again before it hears anything else of it.
  f.access(1);
  CHECK(f.canary->hits == 1);
  CHECK(f.canary->queue.front() == ItemId(1));
  f.share->unpin(ItemId(2));
  CHECK(f.canary->queue.front() == ItemId(2));
  f.share->remove(ItemId(0), engine::Removal::invalidated);
  CHECK(f.canary->aside.empty());
  CHECK(f.share->counters().refused == 0);
}

TEST_CASE("nothing waits in one call for more than some pinned items") {
  constexpr std::uint32_t kPinned = 1000;
  Fixture f(kPinned + 1, 2 * kPinned);
  f.fill();
  for (std::uint32_t item = 0; item < kPinned; ++item) f.share->pin(ItemId(item));
  // Some are put aside with each newcomer, until the policy can name what may leave.
  int newcomers = 0;
  for (int asked = 0; f.access(kPinned + 10) == Result::bypassed; asked = f.canary->asked) {
    CHECK(f.canary->asked - asked <= 65);
    REQUIRE(++newcomers < 20);
  }
  CHECK(newcomers == 15);  // 64 each
  CHECK(f.evicted == std::vector{ItemId(kPinned)});
  CHECK(f.share->counters().refused == 0);

  Fixture forced(kPinned + 1, 2 * kPinned);
  forced.fill();
  for (std::uint32_t item = 0; item < kPinned; ++item) forced.share->pin(ItemId(item));
  CHECK(forced.share->insert_forced({ItemId(kPinned + 10)}, forced.evicted));
  CHECK(forced.canary->asked <= 65);
  CHECK(forced.evicted == std::vector{ItemId(kPinned)});
  CHECK(forced.share->counters().refused == 0);

  // What shrinks goes on where it was left.
  Fixture shrinking(kPinned + 1, kPinned + 1);
  shrinking.fill();
  for (std::uint32_t item = 0; item < kPinned; ++item) shrinking.share->pin(ItemId(item));
  shrinking.share->set_capacity(kPinned);
  int slices = 1;
  for (; !shrinking.shrink(100); ++slices) {
    CHECK(shrinking.canary->asked <= 101 * slices);
    REQUIRE(slices < 20);
  }
  CHECK(slices == 11);
  CHECK(shrinking.evicted == std::vector{ItemId(kPinned)});
}

// What this process has in memory.
static std::size_t resident_pages() {
  std::ifstream statm("/proc/self/statm");
  std::size_t all = 0;
  std::size_t resident = 0;
  statm >> all >> resident;
  return resident;
}

TEST_CASE("a share of a thousand million items takes memory for those that are in it") {
  UnhurriedMemory memory;  // as in an engine's step: no huge pages
  const UnhurriedMemory::Scope scope(memory);
  const std::size_t before = resident_pages();
  Fixture f(1000, 1'000'000'000);
  for (std::uint32_t item = 0; item < 1'000'000'000; item += 10'000'000) f.access(item);
  f.share->pin(ItemId(990'000'000));
  CHECK(f.share->residents() == 100);
  CHECK(f.share->pinned(ItemId(990'000'000)));
#ifndef __SANITIZE_ADDRESS__
  CHECK(resident_pages() - before < 1000);  // 4 MB; a bit an item would be 125 MB
#endif
}

TEST_CASE("a new policy meets pinned items as any other") {
  Fixture f(4);
  f.fill();
  f.share->pin(ItemId(0));
  f.access(5);
  CHECK(f.canary->aside == std::vector{ItemId(0)});
  auto next = std::make_unique<Canary>();
  Canary* newcomer = next.get();
  f.share->swap_policy(std::move(next));
  CHECK(f.share->adopt(100));
  CHECK(newcomer->queue.size() == 4);
  f.share->unpin(ItemId(0));
  CHECK(newcomer->queue.size() == 4);
  f.access(6);
  CHECK(f.evicted == std::vector{ItemId(0)});
}

TEST_CASE("many pins: the table finds each after others have gone") {
  Fixture f(3000, 3000);
  f.fill();
  std::vector<std::uint32_t> pins(3000);
  Random random(11);
  for (int step = 0; step < 60000; ++step) {
    const auto item = static_cast<std::uint32_t>(random.below(3000));
    if (random.below(2) == 0 && pins[item] > 0) {
      f.share->unpin(ItemId(item));
      --pins[item];
    } else if (pins[item] < 3 && item % 7 < 3) {
      f.share->pin(ItemId(item));
      ++pins[item];
    }
    if (step % 1000 != 0) continue;
    Slots pinned = 0;
    for (std::uint32_t i = 0; i < 3000; ++i) {
      REQUIRE(f.share->pinned(ItemId(i)) == (pins[i] > 0));
      pinned += pins[i] > 0;
    }
    REQUIRE(f.share->evictable() == 3000 - pinned);
  }
}

// Of few items each far from the next, a large share keeps only what was touched.
TEST_CASE("a share of 2 10^9 items does what one of 100 does") {
  constexpr std::uint32_t kApart = 20'000'000;
  Fixture small(8, 100), large(8, std::size_t{100} * kApart);
  Random random(5);
  for (int i = 0; i < 20'000; ++i) {
    const auto item = static_cast<std::uint32_t>(random.below(100));
    const ItemId near(item), far(item * kApart);
    CHECK(small.share->resident(near) == large.share->resident(far));
    CHECK(small.share->pinned(near) == large.share->pinned(far));
    if (small.share->pinned(near)) {
      small.share->unpin(near);
      large.share->unpin(far);
    } else if (small.share->resident(near) && small.share->evictable() > 2) {
      small.share->pin(near);
      large.share->pin(far);
    } else {
      CHECK(small.access(item) == large.access(item * kApart));
      REQUIRE(small.evicted.size() == large.evicted.size());
      for (std::size_t k = 0; k < small.evicted.size(); ++k)
        CHECK(small.evicted[k].value * kApart == large.evicted[k].value);
    }
  }
  CHECK(small.share->counters().evictions == large.share->counters().evictions);
}

}  // namespace batchflow::test::share_test
