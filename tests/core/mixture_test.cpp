#include "core/order/mixture.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/base/random.h"

namespace batchflow::test::mixture_test {

namespace {

using order::Mixture;

constexpr __int128 kItem = Mixture::kWhole;

std::vector<double> random_weights(Random& random, std::size_t count) {
  std::vector<double> weights;
  for (std::size_t i = 0; i < count; ++i)
    weights.push_back(random.below(4) == 0 ? 0 : 1 + static_cast<double>(random.below(1000)));
  weights[random.below(count)] = 500;
  return weights;
}

Mixture of_items(const std::vector<double>& weights) {
  return {Mixture::parts_of(weights), std::vector<std::uint32_t>(weights.size(), 1)};
}

// The most that any source is ahead, or behind, in units of 1 / kWhole.
struct Extremes {
  __int128 ahead = 0, behind = 0;
  void look(const Mixture& mixture, std::size_t sources) {
    __int128 sum = 0;
    for (std::uint32_t i = 0; i < sources; ++i) {
      behind = std::max(behind, mixture.behind(i));
      ahead = std::max(ahead, -mixture.behind(i));
      sum += mixture.behind(i);
    }
    CHECK((sum == 0));
  }
};

}  // namespace

TEST_CASE("parts are those of the weights, and all of the whole") {
  const std::vector<double> weights = {0.7, 0.2, 0.1, 0};
  const auto parts = Mixture::parts_of(weights);
  CHECK(std::accumulate(parts.begin(), parts.end(), std::uint64_t{0}) == Mixture::kWhole);
  CHECK(parts[0] == 3'006'477'107);
  CHECK(parts[1] == 858'993'459);
  CHECK(parts[2] == 429'496'730);
  CHECK(parts[3] == 0);
  // However large or small they are.
  CHECK(Mixture::parts_of(std::vector{1e300, 1e300}) == std::vector<std::uint64_t>(2, 1ull << 31));
  CHECK(Mixture::parts_of(std::vector{1e-300, 1e-300}) ==
        std::vector<std::uint64_t>(2, 1ull << 31));
}

TEST_CASE("a mixture by hand") {
  Mixture mixture = of_items({2, 1, 1});
  std::vector<std::uint32_t> came;
  for (int i = 0; i < 8; ++i) {
    came.push_back(mixture.next());
    mixture.take(1);
  }
  CHECK(came == std::vector<std::uint32_t>{0, 1, 0, 2, 0, 1, 0, 2});
}

TEST_CASE("in every prefix each source has its due, rounded up or down") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Random random(seed);
    const std::size_t sources = 1 + random.below(60);
    Mixture mixture = of_items(random_weights(random, sources));
    Extremes extremes;
    for (int n = 0; n < 3000; ++n) {
      mixture.take(1);
      extremes.look(mixture, sources);
    }
    CHECK((extremes.ahead < kItem));
    CHECK((extremes.behind < kItem));
  }
}

TEST_CASE("documents: in every prefix each source is within a longest document of its due") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Random random(seed);
    const std::size_t sources = 1 + random.below(40);
    constexpr std::uint32_t kLongest = 2000;
    const auto length = [&] { return static_cast<std::uint32_t>(1 + random.below(kLongest)); };
    std::vector<std::uint32_t> lengths(sources);
    std::generate(lengths.begin(), lengths.end(), length);
    Mixture mixture(Mixture::parts_of(random_weights(random, sources)), lengths);
    Extremes extremes;
    for (int n = 0; n < 3000; ++n) {
      mixture.take(length());
      extremes.look(mixture, sources);
    }
    CHECK((extremes.ahead < kLongest * kItem));
    CHECK((extremes.behind < kLongest * kItem));
  }
}

TEST_CASE("new weights: no source is ever ahead by an item, and soon none is behind by one") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Random random(seed);
    const std::size_t sources = 2 + random.below(40);
    Mixture mixture = of_items(random_weights(random, sources));
    Extremes always;
    for (int change = 0; change < 20; ++change) {
      for (std::uint64_t n = random.below(300); n > 0; --n) {
        mixture.take(1);
        always.look(mixture, sources);
      }
      mixture.set_parts(Mixture::parts_of(random_weights(random, sources)));
    }
    // What was due of a source without weight is due of others, which are behind by it then.
    CHECK((always.behind < static_cast<__int128>(sources) * kItem));
    CHECK((always.ahead < 2 * kItem));
    for (std::size_t n = 0; n < 4000 * sources; ++n) mixture.take(1);
    Extremes later;
    for (int n = 0; n < 2000; ++n) {
      mixture.take(1);
      later.look(mixture, sources);
    }
    CHECK((later.behind < kItem));
    CHECK((later.ahead < kItem));
  }
}

TEST_CASE("the worst change of weights that can be made") {
  // Ten sources that are nearly due an item, all at once.
  std::vector<double> weights(20, 1);
  Mixture mixture = of_items(weights);
  for (int n = 0; n < 10; ++n) mixture.take(1);
  std::vector<double> last(20, 0);
  std::fill(last.begin() + 10, last.end(), 1);
  mixture.set_parts(Mixture::parts_of(last));
  std::vector<int> came(20, 0);
  for (int n = 0; n < 10; ++n) {
    ++came[mixture.next()];
    mixture.take(1);
  }
  for (int i = 10; i < 20; ++i) CHECK(came[static_cast<std::size_t>(i)] == 1);
}

TEST_CASE("a source alone, and a thousand") {
  Mixture alone = of_items({3});
  for (int n = 0; n < 100; ++n) {
    CHECK(alone.next() == 0);
    alone.take(1);
  }
  CHECK(alone.taken(0) == 100);
  std::vector<double> weights(1000);
  std::iota(weights.begin(), weights.end(), 1);
  Mixture many = of_items(weights);
  for (int n = 0; n < 500'500; ++n) many.take(1);
  // A whole round: to each what its weight says.
  for (std::uint32_t i = 0; i < 1000; ++i) {
    CHECK(many.taken(i) >= i);
    CHECK(many.taken(i) <= i + 2);
  }
}

}  // namespace batchflow::test::mixture_test
