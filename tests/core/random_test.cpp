#include "core/base/random.h"

#include <doctest/doctest.h>

namespace batchflow::test::random_test {

TEST_CASE("golden values of mix and hash") {
  CHECK(mix(1) == 0x5692161d100b05e5);
  CHECK(hash(1, 2, 3) == 0x003f53a1fe784bbf);
}

TEST_CASE("below stays below, and reaches both ends") {
  Random random(7);
  bool seen[5] = {};
  for (int i = 0; i < 200; ++i) {
    const auto value = random.below(5);
    REQUIRE(value < 5);
    seen[value] = true;
  }
  for (bool one : seen) CHECK(one);
}

}  // namespace batchflow::test::random_test
