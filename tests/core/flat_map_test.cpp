#include "core/base/flat_map.h"

#include <doctest/doctest.h>

#include <map>

namespace batchflow::test::flat_map_test {

TEST_CASE("agrees with a plain map under random sets and erases, through several growths") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    FlatMap map;
    std::map<std::uint64_t, std::uint32_t> model;
    const std::uint64_t keys = 10 + random.below(5000);
    for (int i = 0; i < 20'000; ++i) {
      const std::uint64_t key = random.below(keys);
      const std::uint64_t choice = random.below(4);
      if (choice == 0) {
        map.erase(key);
        model.erase(key);
      } else if (choice == 1) {
        // Only if that is its value: every other time it is.
        const auto known = model.find(key);
        const bool right = known != model.end() && random.below(2) == 0;
        map.erase(key, right ? known->second : 1000);
        if (right) model.erase(known);
      } else {
        const auto value = static_cast<std::uint32_t>(random.below(1000));
        map.set(key, value);
        model[key] = value;
      }
      const std::uint64_t probe = random.below(keys);
      const auto found = model.find(probe);
      REQUIRE(map.find(probe) == (found == model.end() ? kNone : found->second));
      REQUIRE(map.size() == model.size());
    }
    for (const auto& [key, value] : model) REQUIRE(map.find(key) == value);
  }
}

}  // namespace batchflow::test::flat_map_test
