// The arena: areas never overlap, all of it comes back, from any thread.
#include "runtime/storage/staging.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/base/random.h"

namespace batchflow::test::staging_test {
namespace {
constexpr Bytes kPage = 4096;
}

TEST_CASE("any size up to all of it, aligned") {
  storage::Staging staging(64 * kPage);
  for (Bytes bytes = 1; bytes <= staging.bytes(); bytes += 1000) {
    std::byte* area = staging.take(bytes);
    REQUIRE(area != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(area) % kPage == 0);
    CHECK(staging.contains(area, bytes));
    staging.give_back(area);
  }
  std::byte* all = staging.take(staging.bytes());
  CHECK(all == staging.begin());
  CHECK(staging.take(1) == nullptr);
  staging.give_back(all);
}

TEST_CASE("neighbours merge, in whatever order they come back") {
  storage::Staging staging(8 * kPage);
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::byte*> areas;
    for (int i = 0; i < 8; ++i) areas.push_back(staging.take(kPage));
    CHECK(staging.take(1) == nullptr);
    shuffle<std::byte*>(areas, random);
    for (std::byte* area : areas) staging.give_back(area);
    std::byte* all = staging.take(8 * kPage);
    REQUIRE(all != nullptr);
    staging.give_back(all);
  }
}

TEST_CASE("the smallest hole that fits is taken") {
  storage::Staging staging(10 * kPage);
  std::byte* large = staging.take(4 * kPage);
  std::byte* wall = staging.take(kPage);
  std::byte* little = staging.take(2 * kPage);
  staging.take(3 * kPage);
  staging.give_back(large);
  staging.give_back(little);
  CHECK(staging.take(2 * kPage) == little);
  CHECK(staging.take(4 * kPage) == large);
  staging.give_back(wall);
}

TEST_CASE("random histories against a map of pages") {
  storage::Staging staging(500 * kPage);
  std::vector<int> owner(500, -1);
  std::vector<std::pair<std::byte*, Bytes>> held;
  Random random(7);
  for (int step = 0; step < 20'000; ++step) {
    if (held.empty() || random.below(2) == 0) {
      const Bytes pages = 1 + random.below(60);
      std::byte* area = staging.take(pages * kPage);
      if (area == nullptr) {
        Bytes run = 0;
        Bytes longest = 0;
        for (const int part : owner) {
          run = part < 0 ? run + 1 : 0;
          longest = std::max(longest, run);
        }
        REQUIRE(longest < pages);
        continue;
      }
      const auto first = static_cast<std::size_t>(area - staging.begin()) / kPage;
      for (Bytes page = first; page < first + pages; ++page) {
        REQUIRE(owner[page] == -1);
        owner[page] = step;
      }
      held.emplace_back(area, pages);
    } else {
      std::swap(held[random.below(held.size())], held.back());
      const auto [area, pages] = held.back();
      held.pop_back();
      const auto first = static_cast<std::size_t>(area - staging.begin()) / kPage;
      for (Bytes page = first; page < first + pages; ++page) owner[page] = -1;
      staging.give_back(area);
    }
  }
}

TEST_CASE("from several threads at once") {
  storage::Staging staging(64 * kPage);
  std::atomic<int> torn{0};
  std::vector<std::thread> threads;
  for (int id = 1; id <= 4; ++id) {
    threads.emplace_back([&, id] {
      Random random(static_cast<std::uint64_t>(id));
      for (int i = 0; i < 2000; ++i) {
        const Bytes bytes = 1 + random.below(20 * kPage);
        std::byte* area = staging.take(bytes);
        if (area == nullptr) continue;
        std::memset(area, id, bytes);
        for (Bytes at = 0; at < bytes; at += 512) torn += area[at] != static_cast<std::byte>(id);
        staging.give_back(area);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(torn == 0);
  CHECK(staging.take(staging.bytes()) == staging.begin());
}

TEST_CASE("no memory is an error that says so") {
  CHECK_THROWS_AS(storage::Staging(0), std::runtime_error);
  CHECK_THROWS_AS(storage::Staging(~Bytes{0}), std::runtime_error);
}

}  // namespace batchflow::test::staging_test
