#include "core/share.h"

#include <doctest/doctest.h>

#include <deque>
#include <functional>

using namespace batchflow;

namespace {

// A FIFO that can be told to answer anything.
class Canary final : public EvictionPolicy {
 public:
  using Answer = std::function<ItemId()>;

  void hit(const Access&) override { ++hits; }
  Admission missed(const Access&) override { return admission; }
  void inserted(const Access& access) override { queue.push_back(access.item); }
  ItemId victim(const Access& newcomer, const Pins& pins) override {
    ++asked;
    asked_for_nobody = newcomer.item.is_none();
    if (lie) return lie();
    for (ItemId item : queue) {
      if (!pins.pinned(item)) return item;
    }
    return ItemId::none();
  }
  void removed(ItemId item, Removal) override { std::erase(queue, item); }
  void resized(Slots) override {}
  void grow(std::size_t items) override { grown_to = items; }
  void forget(ItemId) override { ++forgotten; }

  Admission admission = Admission::insert;
  Answer lie;
  std::deque<ItemId> queue;
  int hits = 0, asked = 0, forgotten = 0;
  bool asked_for_nobody = false;
  std::size_t grown_to = 0;
};

struct Fixture {
  explicit Fixture(Slots capacity = 3, std::size_t items = 10) {
    auto policy = std::make_unique<Canary>();
    canary = policy.get();
    share = std::make_unique<Share>(items, capacity, std::move(policy));
  }
  Share::Result access(std::uint32_t item, Slots slots = 1) {
    evicted.clear();
    return share->access({ItemId(item), slots}, evicted);
  }
  void fill() {
    for (std::uint32_t item = 0; share->used() < share->capacity(); ++item) access(item);
  }
  Canary* canary;
  std::unique_ptr<Share> share;
  std::vector<ItemId> evicted;
};

using Result = Share::Result;

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
  const ShareCounters& counters = f.share->counters();
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
    Refused reason;
    ItemId answer;
  };
  const Lie lies[] = {{Refused::no_victim, ItemId::none()},
                      {Refused::out_of_range, ItemId(10)},
                      {Refused::not_resident, ItemId(7)},
                      {Refused::pinned, ItemId(1)}};
  for (const Lie& lie : lies) {
    CAPTURE(refused_name(lie.reason));
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
    CHECK(f.canary->asked_for_nobody);
    CHECK(f.share->counters().refused == 2);
    // And so it is when the share must shrink.
    f.evicted.clear();
    f.share->set_capacity(1);
    CHECK(f.share->shrink(9, f.evicted));
    CHECK(f.evicted == std::vector{ItemId(2), ItemId(5)});
    CHECK(f.share->pinned(ItemId(1)));
  }
}

TEST_CASE("naming nobody is no fault when all are pinned, and nobody is asked") {
  Fixture f;
  f.fill();
  for (std::uint32_t item = 0; item < 3; ++item) f.share->pin(ItemId(item));
  CHECK(f.share->evictable() == 0);
  CHECK(f.access(5) == Result::bypassed);
  CHECK(!f.share->insert_forced({ItemId(5)}, f.evicted));
  f.share->set_capacity(0);
  CHECK(f.share->shrink(9, f.evicted));
  CHECK(f.evicted.empty());
  CHECK(f.canary->asked == 0);
  CHECK(f.share->counters().refused == 0);
}

TEST_CASE("an item that cannot fit beside the pinned evicts nobody") {
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
  f.share->remove(ItemId(5), Removal::invalidated);  // the pins go with it
  CHECK(!f.share->pinned(ItemId(5)));
  CHECK(f.share->evictable() == f.share->used());
}

TEST_CASE("admission: bypass, making room for nothing, trimming") {
  Fixture f;
  f.fill();
  f.canary->admission = Admission::bypass;
  CHECK(f.access(5) == Result::bypassed);
  CHECK(f.evicted.empty());
  f.canary->admission = Admission::make_room;
  CHECK(f.access(5) == Result::bypassed);
  CHECK(f.evicted == std::vector{ItemId(0)});
  CHECK(f.access(5) == Result::bypassed);  // there is room now
  CHECK(f.evicted.empty());
  f.access(6);
  f.canary->admission = Admission::trim_and_insert;
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
  CHECK(!f.share->shrink(2, f.evicted));
  CHECK(f.evicted.size() == 2);
  CHECK(f.access(7) == Result::hit);
  CHECK(f.share->shrink(100, f.evicted));
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

TEST_CASE("a share can learn of more items") {
  Fixture f(2, 3);
  f.fill();
  f.share->grow(200);
  CHECK(f.canary->grown_to == 200);
  CHECK(f.access(199, 2) == Result::inserted);
  CHECK(f.share->slots(ItemId(199)) == 2);
  CHECK(f.share->residents() == 1);
  f.share->remove(ItemId(199), Removal::invalidated);
  f.share->forget(ItemId(199));
  CHECK(f.canary->forgotten == 1);
  f.share->grow(5000);
  CHECK(f.share->insert_forced({ItemId(4999), 2}, f.evicted));
  f.canary->lie = [] { return ItemId::none(); };
  CHECK(f.share->insert_forced({ItemId(3), 1}, f.evicted));  // the fallback finds the last id, too
  CHECK(f.evicted.back() == ItemId(4999));
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
