#include "runtime/service/backend/item_store.h"

#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "core/base/random.h"
#include "doctest/doctest.h"
#include "runtime/failpoint/failpoint.h"

namespace batchflow::test::item_store_test {
namespace {

constexpr Bytes kMib = Bytes{1} << 20;

std::vector<std::byte> bytes_for(std::uint32_t item, Bytes count) {
  std::vector<std::byte> bytes(count);
  for (Bytes i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(hash(item, i / 8) >> (i % 8));
  return bytes;
}
bool holds(const service::ItemStore::Item& item, const std::vector<std::byte>& bytes) {
  const auto kept = service::ItemStore::bytes_of(item);
  return kept.size() == bytes.size() &&
         (bytes.empty() || std::memcmp(kept.data(), bytes.data(), bytes.size()) == 0);
}
Bytes resident_anonymous() {
  std::ifstream file("/proc/self/status");
  std::string word;
  Bytes kib = 0;
  while (file >> word) {
    if (word == "RssAnon:" && file >> kib) return kib * 1024;
  }
  return 0;
}

TEST_CASE("an item is there until it is dropped, and its bytes as long as a pointer holds them") {
  service::MemoryBudget budget(kMib);
  service::ItemStore store(budget);
  const ShareId share(3);
  for (const Bytes count : {Bytes{0}, Bytes{1}, Bytes{4096}, Bytes{4097}}) {
    const auto item = ItemId(static_cast<std::uint32_t>(count));
    CHECK(store.put(share, item, bytes_for(item.value, count)));
    CHECK(holds(store.find(share, item), bytes_for(item.value, count)));
  }
  CHECK(store.items() == 4);
  CHECK(store.bytes() == 5 * 4096);
  service::ItemStore::Item held = store.find(share, ItemId(4097));
  store.drop(share, ItemId(4097));
  CHECK(store.find(share, ItemId(4097)) == nullptr);
  CHECK(store.put(share, ItemId(7), bytes_for(7, 8192)));
  CHECK(holds(held, bytes_for(4097, 4097)));
  CHECK(store.bytes() == 7 * 4096);
  held.reset();
  CHECK(store.bytes() == 5 * 4096);
  store.drop_all(share);
  CHECK(store.bytes() == 0);
  CHECK(budget.used() == 0);
}

TEST_CASE("of one share some are dropped until they have taken so much, and others stay") {
  service::MemoryBudget budget(kMib);
  service::ItemStore store(budget);
  for (std::uint32_t item = 0; item < 10; ++item) {
    CHECK(store.put(ShareId(1), ItemId(item), bytes_for(item, 8000)));
    CHECK(store.put(ShareId(2), ItemId(item), bytes_for(item, 8000)));
  }
  CHECK(store.drop_some(ShareId(1), 20'000) == 3 * 8192);
  CHECK(store.sum(ShareId(1)).items == 7);
  CHECK(store.sum(ShareId(2)).items == 10);
  CHECK(store.drop_some(ShareId(1), kMib) == 7 * 8192);
  CHECK(store.drop_some(ShareId(1), kMib) == 0);
  CHECK(store.sum(ShareId(1)).offered_items == 10);
  CHECK(store.sum(ShareId(1)).offered_bytes == 10 * 8192);
  CHECK(store.bytes() == 10 * 8192);
}

TEST_CASE(
    "what is put aside comes into another share, beside what that has, and nothing else stays") {
  service::MemoryBudget budget(kMib);
  service::ItemStore store(budget);
  using Aside = service::ItemStore::Aside;
  for (const std::uint32_t item : {0u, 5u, 40u}) {
    CHECK(store.put(ShareId(1), ItemId(item), bytes_for(item, 4096)));
    CHECK(store.put(ShareId(2), ItemId(item), bytes_for(item, 4096)));
  }
  store.put_aside(ShareId(1), Aside{7, 0});
  store.put_aside(ShareId(9), Aside{7, 0});  // of a share that keeps nothing
  store.drop_shares();
  CHECK(store.bytes() == 3 * 4096);
  CHECK_FALSE(store.find(ShareId(1), ItemId(5)));
  CHECK(store.aside(Aside{7, 0}) == std::vector<ItemId>{ItemId(0), ItemId(5), ItemId(40)});
  CHECK(store.aside(Aside{7, 2}).empty());
  CHECK(store.put(ShareId(3), ItemId(5), bytes_for(6, 100)));
  store.adopt(Aside{7, 0}, ShareId(3));
  CHECK(store.aside(Aside{7, 0}).empty());
  CHECK(holds(store.find(ShareId(3), ItemId(40)), bytes_for(40, 4096)));
  CHECK(holds(store.find(ShareId(3), ItemId(5)), bytes_for(6, 100)));
  CHECK(store.sum(ShareId(3)).items == 3);
  CHECK(store.sum(ShareId(3)).bytes == 3 * 4096);
  CHECK(store.sum(ShareId(3)).offered_items == 3);
  store.adopt(Aside{7, 0}, ShareId(3));  // nothing any more
  store.drop_all(ShareId(3));
  CHECK(budget.used() == 0);
}

TEST_CASE("each form that is put aside is one of its own") {
  service::MemoryBudget budget(kMib);
  service::ItemStore store(budget);
  using Aside = service::ItemStore::Aside;
  CHECK(store.put(ShareId(1), ItemId(1), bytes_for(1, 100)));
  CHECK(store.put(ShareId(2), ItemId(1), bytes_for(2, 5000)));
  CHECK(store.put(ShareId(3), ItemId(1), bytes_for(3, 100)));
  store.put_aside(ShareId(1), Aside{7, 0, 0});
  store.put_aside(ShareId(2), Aside{7, 0, 55});
  store.put_aside(ShareId(3), Aside{8, 0, 55});
  CHECK(store.asides(7) == std::vector<Aside>{{7, 0, 0}, {7, 0, 55}});
  CHECK(store.sum(Aside{7, 0, 55}).items == 1);
  CHECK(store.sum(Aside{7, 0, 55}).bytes == 8192);
  store.adopt(Aside{7, 0, 55}, ShareId(4));
  CHECK(holds(store.find(ShareId(4), ItemId(1)), bytes_for(2, 5000)));
  CHECK(store.asides(7) == std::vector<Aside>{{7, 0, 0}});
}

TEST_CASE("what is put aside goes when memory is needed") {
  service::MemoryBudget budget(kMib);
  service::ItemStore store(budget);
  for (std::uint32_t item = 0; item < 16; ++item)
    CHECK(store.put(ShareId(1), ItemId(item), bytes_for(item, 40'000)));
  store.put_aside(ShareId(1), {7, 0});
  const service::MemoryCharge needed(budget, kMib / 2);
  CHECK(needed);
  CHECK(store.aside({7, 0}).empty());
  CHECK(store.bytes() == 0);
}

TEST_CASE("no more is kept than the budget has, and what is refused is not there") {
  service::MemoryBudget budget(kMib);
  service::ItemStore store(budget);
  std::uint32_t kept = 0;
  for (std::uint32_t item = 0; item < 100; ++item)
    kept += store.put(ShareId(0), ItemId(item), bytes_for(item, 64 << 10)) ? 1 : 0;
  CHECK(kept == 15);  // 16 of them and their entries are more than 1 MiB
  CHECK(store.items() == 15);
  CHECK(budget.used() <= kMib);
  // One that is replaced makes room for itself; a larger one in its place finds none.
  CHECK(store.put(ShareId(0), ItemId(3), bytes_for(3, 64 << 10)));
  CHECK_FALSE(store.put(ShareId(0), ItemId(3), bytes_for(3, 512 << 10)));
  CHECK(store.find(ShareId(0), ItemId(3)) == nullptr);
}

TEST_CASE("sizes of any kind come and go for long, and all of the budget stays of use") {
  service::MemoryBudget budget(32 * kMib);
  service::ItemStore store(budget);
  Random chance(7);
  std::vector<std::uint32_t> there;
  const Bytes before = resident_anonymous();
  Bytes most = 0;
  for (std::uint32_t item = 0; item < 20000; ++item) {
    // Ever larger, so that what smaller ones leave never suffices for one.
    const Bytes count = 1 + chance.below(100 + item * 10);
    const std::vector<std::byte> bytes(count, static_cast<std::byte>(item));
    while (!store.put(ShareId(1), ItemId(item), bytes)) {
      REQUIRE_FALSE(there.empty());
      REQUIRE(budget.used() + count + 8192 > budget.most());  // it is full, and not cut up
      const std::size_t at = chance.below(there.size());
      store.drop(ShareId(1), ItemId(there[at]));
      there[at] = there.back();
      there.pop_back();
    }
    there.push_back(item);
    if (item % 500 == 0) most = std::max(most, resident_anonymous());
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(most - before < 36 * kMib);
#endif
  for (const std::uint32_t item : there) {
    const auto kept = store.find(ShareId(1), ItemId(item));
    REQUIRE(kept);
    CHECK(service::ItemStore::bytes_of(kept).front() == static_cast<std::byte>(item));
  }
}

TEST_CASE("pages come by regions, are used again, and go back when others need the budget") {
  service::MemoryBudget budget(64 * kMib);
  service::ItemStore store(budget);
  constexpr Bytes kItem = 256 << 10;
  const auto put = [&](std::uint32_t item) {
    return store.put(ShareId(0), ItemId(item), bytes_for(item, kItem));
  };
  const auto entries = [](std::uint32_t items) { return items * Bytes{160}; };
  for (std::uint32_t item = 0; item < 64; ++item) REQUIRE(put(item));
  CHECK(budget.used() == 16 * kMib + entries(64));
  CHECK(budget.needed() == budget.used());
  REQUIRE(put(64));  // begins a region
  CHECK(budget.used() == 18 * kMib + entries(65));
  CHECK(budget.needed() == 16 * kMib + kItem + entries(65));
  // What leaves half of a region stays for the next, and what leaves all of it is given back.
  for (std::uint32_t item = 0; item < 64; item += 2) store.drop(ShareId(0), ItemId(item));
  CHECK(budget.used() == 18 * kMib + entries(33));
  CHECK(budget.needed() == 8 * kMib + kItem + entries(33));
  for (std::uint32_t item = 0; item < 64; item += 4) REQUIRE(put(item));
  CHECK(budget.used() == 18 * kMib + entries(49));
  [[maybe_unused]] const Bytes before = resident_anonymous();
  // Another needs all that no item has.
  const Bytes rest = budget.most() - budget.needed();
  CHECK(budget.has_room(rest));
  CHECK_FALSE(budget.has_room(rest + 1));
  CHECK_FALSE(budget.take_now(rest));
  CHECK(budget.take(rest));
  CHECK(budget.used() == budget.most());
  CHECK(budget.needed() == budget.most());
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(resident_anonymous() < before - 4 * kMib);
#endif
  CHECK_FALSE(put(2));
  std::uint32_t found = 0;
  for (std::uint32_t item = 0; item <= 64; ++item) {
    const auto kept = store.find(ShareId(0), ItemId(item));
    if (!kept) continue;
    ++found;
    CHECK(holds(kept, bytes_for(item, kItem)));
  }
  CHECK(found == 49);
  budget.give_back(rest);
  store.drop_all(ShareId(0));
  CHECK(budget.used() == 0);
  CHECK(budget.needed() == 0);
  REQUIRE(put(1));
  CHECK(budget.used() == 2 * kMib + entries(1));
}

TEST_CASE("what finds no room leaves nothing counted, though a region was given up for it") {
  service::MemoryBudget budget(64 * kMib);
  service::ItemStore store(budget);
  const auto put = [&](std::uint32_t item, Bytes bytes) {
    return store.put(ShareId(0), ItemId(item), bytes_for(item, bytes));
  };
  REQUIRE(put(0, kMib / 2));
  REQUIRE(put(1, kMib / 2));
  store.drop(ShareId(0), ItemId(0));  // a hole, which is too small for the next
  const Bytes rest = budget.most() - budget.used() - 4096;  // but for the entry
  REQUIRE(budget.take(rest));
  CHECK_FALSE(put(2, 2 * kMib));  // half of it would lie in the region, and half beyond
  CHECK(budget.needed() == budget.used());
  CHECK(budget.used() == rest + kMib / 2 + 160);
  budget.give_back(rest);
  store.drop_all(ShareId(0));
  CHECK(budget.used() == 0);
  CHECK(budget.needed() == 0);
}

TEST_CASE("a machine without pages keeps nothing, and the budget is as before") {
  service::MemoryBudget budget(kMib);
  service::ItemStore store(budget);
  failpoint::configure_failpoints("service.items.fill=fail:1:2");
  CHECK_FALSE(store.put(ShareId(0), ItemId(1), bytes_for(1, 5000)));
  CHECK_FALSE(store.put(ShareId(0), ItemId(1), bytes_for(1, 5000)));
  CHECK(budget.used() == 0);
  CHECK(store.put(ShareId(0), ItemId(1), bytes_for(1, 5000)));
  failpoint::configure_failpoints("");
}

TEST_CASE("threads that put, find and drop the same items see whole ones or none") {
  service::MemoryBudget budget(8 * kMib);
  service::ItemStore store(budget);
  std::vector<std::thread> threads;
  std::atomic<std::uint32_t> wrong{0};
  for (std::uint32_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      Random chance(thread);
      for (int i = 0; i < 3000; ++i) {
        const auto item = static_cast<std::uint32_t>(chance.below(16));
        const auto bytes = bytes_for(item, 100 + item * 3000);
        if (chance.below(3) == 0) store.drop(ShareId(0), ItemId(item));
        if (chance.below(2) == 0) store.put(ShareId(0), ItemId(item), bytes);
        const auto found = store.find(ShareId(0), ItemId(item));
        if (found && !holds(found, bytes)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  store.drop_all(ShareId(0));
  CHECK(budget.used() == 0);
}

}  // namespace
}  // namespace batchflow::test::item_store_test
