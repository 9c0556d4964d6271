// Which items a shadow follows for all of them.
#include "core/engine/followed_items.h"

#include <doctest/doctest.h>

namespace batchflow::test::followed_items_test {

namespace {

std::uint32_t count(const engine::FollowedItems& followed, std::uint32_t items) {
  std::uint32_t found = 0;
  for (std::uint32_t item = 0; item < items; ++item) found += followed.has(ItemId(item)) ? 1 : 0;
  return found;
}

}  // namespace

TEST_CASE("all items of a small share are followed, if that is allowed") {
  CHECK(count({4095, 0}, 4095) == 4095);
  CHECK(engine::FollowedItems(4095, 0).part_of(100) == 100);
  CHECK(count({4095, 3}, 4096) < 4096 / 4);
  CHECK(engine::FollowedItems(4095, 3).part_of(800) == 100);
}

TEST_CASE("what followed items count stands for all items") {
  for (const std::uint32_t items : {1u << 14, 1u << 20, 3u << 20}) {
    CAPTURE(items);
    const engine::FollowedItems followed(items, 0);
    const std::uint32_t theirs = count(followed, items);
    CHECK(theirs >= 2048);
    CHECK(theirs <= 4097);
    CHECK(followed.part_of(items) <= theirs + 1);
    CHECK(followed.scaled_to_all(theirs) > items * 99ull / 100);
    CHECK(followed.scaled_to_all(theirs) < items * 101ull / 100);
  }
}

}  // namespace batchflow::test::followed_items_test
