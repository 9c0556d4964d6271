// What a cache that knew all next uses would have hit, against the best that any choice can do.
#include "core/engine/shadow_cache.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <vector>

#include "core/base/random.h"
#include "core/engine/policy.h"

namespace batchflow::test::shadow_cache_test {

namespace {

using Sequence = std::vector<std::uint32_t>;  // of items, by number

// The first items that the shadow of so many follows.
std::vector<ItemId> followed(const engine::ShadowCache& shadow, std::size_t count) {
  std::vector<ItemId> items;
  for (std::uint32_t item = 0; items.size() < count; ++item) {
    if (shadow.follows(ItemId(item))) items.emplace_back(item);
  }
  return items;
}

std::uint64_t next_use(const Sequence& sequence, std::size_t at) {
  const auto next = std::find(sequence.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                              sequence.end(), sequence[at]);
  return next == sequence.end() ? engine::kNeverUsed
                                : static_cast<std::uint64_t>(next - sequence.begin());
}

std::size_t hits_of_shadow(const Sequence& sequence, std::uint32_t items, Slots capacity) {
  engine::ShadowCache shadow(items);  // follows one in eight
  const std::vector<ItemId> ids = followed(shadow, items);
  std::size_t hits = 0;
  for (std::size_t at = 0; at < sequence.size(); ++at)
    hits += shadow.request(ids[sequence[at]], 1, next_use(sequence, at), 8 * capacity);
  return hits;
}

// The most hits of any cache: all sets of residents that can be reached, with the most hits so far.
std::size_t most_hits(const Sequence& sequence, std::uint32_t items, Slots capacity) {
  std::map<std::uint32_t, std::size_t> sets{{0, 0}};
  for (const std::uint32_t item : sequence) {
    std::map<std::uint32_t, std::size_t> after;
    const auto reach = [&](std::uint32_t set, std::size_t hits) {
      after[set] = std::max(after[set], hits);
    };
    for (const auto& [set, hits] : sets) {
      const std::uint32_t bit = 1u << item;
      if ((set & bit) != 0) {
        reach(set, hits + 1);
        continue;
      }
      reach(set, hits);
      if (static_cast<Slots>(std::popcount(set)) < capacity) reach(set | bit, hits);
      for (std::uint32_t other = 0; other < items; ++other)
        if ((set >> other & 1) != 0) reach((set & ~(1u << other)) | bit, hits);
    }
    sets = std::move(after);
  }
  std::size_t most = 0;
  for (const auto& [set, hits] : sets) most = std::max(most, hits);
  return most;
}

}  // namespace

TEST_CASE("a shadow hits as often as the best choice of residents") {
  Random random(3);
  for (int round = 0; round < 40; ++round) {
    const auto items = static_cast<std::uint32_t>(3 + random.below(5));
    const Slots capacity = 1 + random.below(items - 1);
    Sequence sequence(30);
    for (std::uint32_t& item : sequence) item = static_cast<std::uint32_t>(random.below(items));
    CAPTURE(round);
    CHECK(hits_of_shadow(sequence, items, capacity) == most_hits(sequence, items, capacity));
  }
}

TEST_CASE(
    "a shadow follows some thousand items, one in eight at most, and shrinks with its share") {
  for (const std::size_t items : {std::size_t{800}, std::size_t{1} << 20, std::size_t{1} << 30}) {
    const engine::ShadowCache shadow(items);
    std::size_t count = 0;
    const std::size_t looked_at = std::min<std::size_t>(items, 1 << 22);
    for (std::uint32_t item = 0; item < looked_at; ++item) count += shadow.follows(ItemId(item));
    const double expected = std::min<double>(static_cast<double>(items) / 8, 4096) *
                            static_cast<double>(looked_at) / static_cast<double>(items);
    CHECK(static_cast<double>(count) > 0.4 * expected);
    CHECK(static_cast<double>(count) < 2.1 * expected);
  }
  engine::ShadowCache shadow(100);
  const std::vector<ItemId> ids = followed(shadow, 3);
  for (const ItemId id : ids) CHECK_FALSE(shadow.request(id, 1, 9, 24));
  CHECK(shadow.request(ids[0], 1, 9, 24));
  CHECK_FALSE(shadow.request(ids[1], 1, 9, 0));  // what is asked for is not kept, either
  for (const ItemId id : ids) CHECK_FALSE(shadow.request(id, 1, 9, 0));
}

}  // namespace batchflow::test::shadow_cache_test
