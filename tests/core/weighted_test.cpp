#include "core/order/weighted.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace batchflow::test::weighted_test {

namespace {

using Wide = unsigned __int128;
constexpr order::KeyRoot kRoot{11, 12};

std::vector<std::uint64_t> counts_of(const order::WeightedEpoch& epoch, std::uint64_t samples) {
  std::vector<std::uint64_t> counts(samples);
  for (std::uint64_t place = 0; place < epoch.draws(); ++place) {
    ++counts[epoch.at(place).sample.value];
  }
  return counts;
}

// Weights of a few kinds: equal, small, huge, mostly zero.
std::uint32_t random_weight(Random& random, std::uint64_t kind) {
  switch (kind) {
    case 0:
      return 7;
    case 1:
      return static_cast<std::uint32_t>(random.below(10));
    case 2:
      return static_cast<std::uint32_t>(random.below(std::uint64_t{1} << 32));
    default:
      return random.below(10) == 0 ? UINT32_MAX : 0;
  }
}

// The strongest promise: each sample floor or ceil of M q / T times, occurrences 0, 1, ... once.
void check_systematic_case(std::uint64_t seed) {
  INFO("seed = " << seed);
  Random random(hash(15, seed));
  const std::uint64_t samples = 1 + random.below(300);
  const std::uint64_t kind = random.below(4);
  order::WeightTree weights(samples, 3);
  for (std::uint64_t s = 0; s < samples; ++s) weights.set(SampleId(s), random_weight(random, kind));
  if (weights.total() == 0) weights.set(SampleId(0), 1);
  const std::uint64_t draws = 1 + random.below(1000);
  const order::WeightedEpoch epoch(weights, {seed, 1}, seed, draws, order::Drawing::systematic);

  std::vector<std::vector<bool>> seen(samples);
  for (std::uint64_t place = 0; place < draws; ++place) {
    const order::Draw draw = epoch.at(place);
    auto& of_sample = seen[draw.sample.value];
    if (of_sample.size() <= draw.occurrence) of_sample.resize(draw.occurrence + 1);
    REQUIRE(!of_sample[draw.occurrence]);
    of_sample[draw.occurrence] = true;
  }
  std::uint64_t sum = 0;
  for (std::uint64_t s = 0; s < samples; ++s) {
    const std::uint64_t count = seen[s].size();
    for (std::uint64_t k = 0; k < count; ++k) REQUIRE(seen[s][k]);
    const Wide exact = Wide{draws} * weights.weight(SampleId(s));
    REQUIRE(Wide{count} * weights.total() + weights.total() > exact);
    REQUIRE(exact + weights.total() > Wide{count} * weights.total());
    sum += count;
  }
  REQUIRE(sum == draws);
}

}  // namespace

TEST_CASE("the tree finds the sample that covers a point, as adding up would") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    INFO("seed = " << seed);
    Random random(hash(16, seed));
    const std::uint64_t samples = 1 + random.below(700);
    order::WeightTree tree(samples, static_cast<std::uint32_t>(random.below(5)));
    const std::uint64_t kind = random.below(4);
    for (std::uint64_t i = random.below(2 * samples); i > 0; --i) {
      tree.set(SampleId(random.below(samples)), random_weight(random, kind));
    }
    std::uint64_t before = 0;
    for (std::uint64_t s = 0; s < samples; ++s) {
      const std::uint64_t after = before + tree.weight(SampleId(s));
      for (const std::uint64_t point : {before, (before + after) / 2, after - 1}) {
        if (after == before) break;
        REQUIRE(tree.find(point).sample == SampleId(s));
        REQUIRE(tree.find(point).before == before);
      }
      before = after;
    }
    REQUIRE(tree.total() == before);
  }
}

TEST_CASE("sums beyond 32 bits and points beyond 64: 2^26 samples of the greatest weight") {
  constexpr std::uint64_t kSamples = std::uint64_t{1} << 26;
  const order::WeightTree tree(kSamples, UINT32_MAX);
  CHECK(tree.total() == kSamples * UINT32_MAX);
  CHECK(tree.find(tree.total() - 1).sample == SampleId(kSamples - 1));
  const order::WeightedEpoch epoch(tree, kRoot, 0, 1'000'000'000'000, order::Drawing::systematic);
  CHECK(epoch.at(999'999'999'999).occurrence < 14'902);  // ceil(10^12 / 2^26)
}

TEST_CASE("the digest names the weights, not their history") {
  order::WeightTree one(100, 5);
  order::WeightTree two(100, 5);
  const Digest untouched = one.digest();
  one.set(SampleId(3), 9);
  two.set(SampleId(3), 1);
  two.set(SampleId(8), 2);
  CHECK(one.digest() != two.digest());
  two.set(SampleId(8), 5);
  two.set(SampleId(3), 9);
  CHECK(one.digest() == two.digest());
  one.set(SampleId(3), 5);
  CHECK(one.digest() == untouched);
  CHECK(order::WeightTree(101, 5).digest() != untouched);
}

TEST_CASE("systematic draws: floor or ceil of the expected count, in 3000 random cases") {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) check_systematic_case(seed);
}

TEST_CASE("systematic draws with equal weights and M = N are each sample once, in a new order") {
  const order::WeightTree weights(1000, 4);
  const order::WeightedEpoch first(weights, kRoot, 0, 1000, order::Drawing::systematic);
  const order::WeightedEpoch second(weights, kRoot, 1, 1000, order::Drawing::systematic);
  std::uint64_t same = 0;
  for (const std::uint64_t count : counts_of(first, 1000)) REQUIRE(count == 1);
  for (std::uint64_t place = 0; place < 1000; ++place) {
    REQUIRE(first.at(place).occurrence == 0);
    same += first.at(place).sample == second.at(place).sample ? 1 : 0;
  }
  CHECK(same < 10);
  CHECK(first.generation() != second.generation());
}

TEST_CASE("a run of places equals single places, and the epoch is cut by no one's batch size") {
  order::WeightTree weights(5000, 1);
  for (std::uint64_t s = 0; s < 5000; s += 3) weights.set(SampleId(s), 10);
  for (const order::Drawing drawing : {order::Drawing::systematic, order::Drawing::multinomial}) {
    order::WeightedEpoch epoch(weights, kRoot, 7, 80'000, drawing);
    std::vector<order::Draw> run(300);
    epoch.fill(79'700, run);
    for (std::size_t i = 0; i < run.size(); ++i) REQUIRE(run[i] == epoch.at(79'700 + i));
  }
}

TEST_CASE("multinomial draws: mean and variance are those of independent draws") {
  // Half of 200 samples weigh 1, half 3. Counts of one sample over 400 epochs of 400 draws.
  order::WeightTree weights(200, 1);
  for (std::uint64_t s = 100; s < 200; ++s) weights.set(SampleId(s), 3);
  double sum = 0;
  double squares = 0;
  constexpr int kEpochs = 400;
  for (std::uint64_t e = 0; e < kEpochs; ++e) {
    const order::WeightedEpoch epoch(weights, kRoot, e, 400, order::Drawing::multinomial);
    const auto count = static_cast<double>(counts_of(epoch, 200)[150]);
    sum += count;
    squares += count * count;
  }
  const double mean = sum / kEpochs;
  const double variance = squares / kEpochs - mean * mean;
  // p = 3/400: mean 3, variance 400 p (1 - p) = 2.98; their standard deviations are .086 and .23.
  CHECK(std::abs(mean - 3) < 4.75 * 0.0863);
  CHECK(std::abs(variance - 2.9775) < 4.75 * 0.23);
}

TEST_CASE("weights are frozen for an epoch; reports count for the next, in slices of any size") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    INFO("seed = " << seed);
    Random random(hash(17, seed));
    const std::uint64_t samples = 1 + random.below(500);
    order::Weights weights(samples, 2);
    std::vector<std::uint32_t> newest(samples, 2);
    std::vector<std::uint32_t> frozen = newest;
    for (int epoch = 0; epoch < 12; ++epoch) {
      for (std::uint64_t i = random.below(2 * samples); i > 0; --i) {
        const SampleId sample(random.below(samples));
        newest[sample.value] = static_cast<std::uint32_t>(random.below(50));
        weights.report(sample, newest[sample.value]);
        if (random.below(4) == 0) weights.settle(random.below(3));
      }
      for (std::uint64_t s = 0; s < samples; ++s) {
        REQUIRE(weights.frozen().weight(SampleId(s)) == frozen[s]);
      }
      while (!weights.settle(1 + random.below(9))) {
      }
      weights.freeze();
      frozen = newest;
      for (std::uint64_t s = 0; s < samples; ++s) {
        REQUIRE(weights.frozen().weight(SampleId(s)) == newest[s]);
      }
    }
  }
}

TEST_CASE("a million reports settle in a bounded number of slices") {
  constexpr std::uint64_t kSamples = 1'000'000;
  order::Weights weights(kSamples, 1);
  for (std::uint64_t s = 0; s < kSamples; ++s) {
    weights.report(SampleId(s), static_cast<std::uint32_t>(s % 100));
  }
  REQUIRE(weights.settled());
  weights.freeze();
  // A unit a report and a unit a word of 64 samples.
  std::uint64_t slices = 1;
  while (!weights.settle(4096)) ++slices;
  CHECK(slices == (kSamples + kSamples / 64 + 4095) / 4096);
  CHECK(weights.frozen().total() == kSamples / 100 * 4950);
}

TEST_CASE("scores become weights: positive ones can be drawn, others never") {
  CHECK(order::weight_of_score(1.0f) == 65536);
  CHECK(order::weight_of_score(0.0f) == 0);
  CHECK(order::weight_of_score(-3.0f) == 0);
  CHECK(order::weight_of_score(std::numeric_limits<float>::quiet_NaN()) == 0);
  CHECK(order::weight_of_score(1e-30f) == 1);
  CHECK(order::weight_of_score(std::numeric_limits<float>::infinity()) == UINT32_MAX);
}

}  // namespace batchflow::test::weighted_test
