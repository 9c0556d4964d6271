// Numbers of generations only grow when a job goes from a shared stream to one of its own, and
// back.
#include "core/order/generation_numbers.h"

#include <doctest/doctest.h>

#include "core/base/random.h"
#include "core/order/lane_position.h"

namespace batchflow::test::generation_numbers_test {

TEST_CASE("numbers grow with each change of the stream, and say of which kind the stream is") {
  Random random(1);
  for (int job = 0; job < 1000; ++job) {
    const std::uint64_t chance = random.draw();
    std::uint64_t number = random.below(100);
    for (int change = 0; change < 1000; ++change) {
      REQUIRE(order::before_own_stream(number, chance) > number);
      number = order::before_own_stream(number, chance) + 1 + random.below(100);
      REQUIRE(order::is_of_own_stream(number));
      REQUIRE(order::before_shared_stream(number) > number);
      number = order::before_shared_stream(number) + 1 + random.below(100);
      REQUIRE_FALSE(order::is_of_own_stream(number));
    }
    REQUIRE(number < order::LanePosition::kGenerationMost / 2);
  }
}

TEST_CASE("jobs that come together begin at one number, whatever numbers they had") {
  Random random(2);
  const std::uint64_t first = order::before_own_stream(7, random.draw()) + 1;
  for (int job = 0; job < 100; ++job) {
    const std::uint64_t other = order::before_own_stream(5, random.draw()) + 1 + random.below(9);
    CHECK(other != first);
    CHECK(order::before_shared_stream(other) == order::before_shared_stream(first));
  }
}

TEST_CASE("jobs of the greatest and the least chance stay within one era for long") {
  for (const std::uint64_t chance : {std::uint64_t{0}, UINT64_MAX}) {
    const std::uint64_t first = order::before_own_stream(0, chance) + 1;
    CHECK(order::is_of_own_stream(first));
    CHECK(order::before_shared_stream(first + 1'000'000'000) == order::before_shared_stream(first));
  }
}

}  // namespace batchflow::test::generation_numbers_test
