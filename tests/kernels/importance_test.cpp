#include "kernels/importance.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "core/order/weighted.h"

namespace batchflow {
namespace {

using namespace kernels;

ScoreStatistics statistics_of(const std::vector<float>& scores) {
  ScoreStatistics made;
  on_cpu::score_statistics(scores.data(), scores.size(), &made);
  return made;
}

TEST_CASE("quartiles lie between two scores in proportion, as numpy's") {
  // numpy.percentile(x, [25, 50, 75]), by hand.
  const ScoreStatistics one = statistics_of({3});
  CHECK(one.lower == 3);
  CHECK(one.upper == 3);
  CHECK(one.normalised(7) == 0);
  const ScoreStatistics four = statistics_of({40, 10, 30, 20});
  CHECK(four.lower == 17.5f);
  CHECK(four.median == 25);
  CHECK(four.upper == 32.5f);
  CHECK(four.normalised(40) == 1);
  const ScoreStatistics six = statistics_of({6, 1, 5, 2, 4, 3});
  CHECK(six.lower == 2.25f);
  CHECK(six.median == 3.5f);
  CHECK(six.upper == 4.75f);
  const ScoreStatistics odd = statistics_of({-1, NAN, 1});
  CHECK(odd.median == 0);
  CHECK(odd.normalised(NAN) == 0);
}

TEST_CASE("draws by weight are those of a weighted epoch, in the order of their points") {
  Random random(5);
  const order::KeyRoot root{77, 12};
  for (const std::size_t samples : {1u, 2u, 37u, 1000u}) {
    std::vector<std::uint32_t> weights(samples);
    for (std::uint32_t& weight : weights)
      weight = random.below(3) == 0 ? 0 : static_cast<std::uint32_t>(random.draw() >> 40);
    weights[samples / 2] = 1;
    order::WeightTree tree(samples, 0);
    for (std::size_t i = 0; i < samples; ++i) tree.set(SampleId{i}, weights[i]);
    for (const std::uint64_t count : {1u, 10u, 5000u}) {
      const Draws draws{count, Random(order::weighted_start_key(root, 3)).draw()};
      std::vector<std::uint64_t> made(count);
      on_cpu::draw_by_weight(weights.data(), samples, draws, made.data());
      const order::WeightedEpoch epoch(tree, root, 3, count, order::Drawing::systematic);
      const order::Permutation points(order::weighted_key(root, 3), count);
      for (std::uint64_t i = 0; i < count; ++i) CHECK(epoch.at(i).sample.value == made[points(i)]);
    }
  }
}

}  // namespace
}  // namespace batchflow
