#include "core/flat_map.h"

#include <doctest/doctest.h>

#include <map>

using namespace batchflow;

TEST_CASE("agrees with a plain map under random sets and erases, through several growths") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    FlatMap map;
    std::map<std::uint64_t, std::uint32_t> model;
    const std::uint64_t keys = 10 + random.below(5000);
    for (int i = 0; i < 20'000; ++i) {
      const std::uint64_t key = random.below(keys);
      if (random.below(3) == 0) {
        map.erase(key);
        model.erase(key);
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
