// Is the order as good as random? Each test asks the product and, where one is known, an order with
// a bug (a canary) that it must catch. Seeds are fixed, so a pass never flickers; the chance that a
// changed seed fails a right program is 10^-6 a test: z 4.75, chi-square 111.6 at 49 degrees.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "core/order/order.h"
#include "core/order/permutation.h"

namespace batchflow::test::order_statistics_test {

namespace {

constexpr double kGreatestZ = 4.75;
constexpr double kGreatestChiSquare49 = 111.6;
constexpr order::KeyRoot kRoot{0x5eed, 1};

using Ids = std::vector<std::uint64_t>;
// The order of an epoch, as a bug or the product makes it: sample by index.
using MakeOrder = std::function<Ids(std::uint64_t epoch, std::uint64_t n)>;

Ids product(std::uint64_t epoch, std::uint64_t n) {
  Ids order(n);
  order::Permutation(order::generation_key(kRoot, epoch), n).fill(0, order);
  return order;
}

// A Fisher-Yates shuffle where the partner of i in n..2 is chosen by `choose(random, i)`.
template <class Choose>
Ids shuffled(std::uint64_t key, std::uint64_t n, Choose choose) {
  Ids order(n);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  Random random(key);
  for (std::uint64_t i = n; i > 1; --i) std::swap(order[i - 1], order[choose(random, i)]);
  return order;
}

std::uint64_t key_of(std::uint64_t epoch) {
  return order::generation_key(kRoot, epoch);
}

Ids naive_swap(std::uint64_t epoch, std::uint64_t n) {
  return shuffled(key_of(epoch), n, [n](Random& r, std::uint64_t) { return r.below(n); });
}
Ids without_epoch(std::uint64_t, std::uint64_t n) {
  return product(0, n);
}
Ids modulo_of_low_bits(std::uint64_t epoch, std::uint64_t n) {
  return shuffled(key_of(epoch), n,
                  [](Random& r, std::uint64_t i) { return (r.draw() & 1023) % i; });
}
Ids first_element_fixed(std::uint64_t epoch, std::uint64_t n) {
  return shuffled(key_of(epoch), n, [](Random& r, std::uint64_t i) { return 1 + r.below(i - 1); });
}
Ids sattolo(std::uint64_t epoch, std::uint64_t n) {
  return shuffled(key_of(epoch), n, [](Random& r, std::uint64_t i) { return r.below(i - 1); });
}

// The product's network, written again with any number of rounds, at any size.
class Network {
 public:
  Network(std::uint64_t key, std::uint64_t n, std::size_t rounds) : n_(n), keys_(rounds) {
    auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n)));
    while (root * root < n) ++root;
    columns_ = root + root % 2;
    rows_ = (n + columns_ - 1) / columns_;
    for (std::size_t i = 0; i < rounds; ++i) keys_[i] = hash(key, i);
  }

  std::uint64_t columns() const { return columns_; }
  std::uint64_t operator()(std::uint64_t x) const {
    do {
      std::uint64_t l = x % columns_;
      std::uint64_t r = x / columns_;
      for (std::size_t i = 0; i < keys_.size(); i += 2) {
        l = (l + high_64_of_product(mix(r ^ keys_[i]), columns_)) % columns_;
        r = (r + high_64_of_product(mix(l ^ keys_[i + 1]), rows_)) % rows_;
      }
      x = r * columns_ + l;
    } while (x >= n_);
    return x;
  }

 private:
  std::uint64_t n_;
  std::uint64_t columns_;
  std::uint64_t rows_;
  std::vector<std::uint64_t> keys_;
};

// -------------------------------------------------------------------------------- statistics ----

// 8 x 8 eighths of samples by eighths of indices, over many epochs.
double index_table_chi_square(const MakeOrder& make, std::uint64_t epochs, std::uint64_t n) {
  std::array<std::array<std::uint64_t, 8>, 8> table{};
  std::array<std::uint64_t, 8> width{};
  for (std::uint64_t index = 0; index < n; ++index) ++width[index * 8 / n];
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    const Ids order = make(epoch, n);
    for (std::uint64_t index = 0; index < n; ++index) ++table[order[index] * 8 / n][index * 8 / n];
  }
  double chi_square = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    for (std::size_t j = 0; j < 8; ++j) {
      const double expected = static_cast<double>(epochs) * static_cast<double>(width[i]) *
                              static_cast<double>(width[j]) / static_cast<double>(n);
      const double difference = static_cast<double>(table[i][j]) - expected;
      chi_square += difference * difference / expected;
    }
  }
  return chi_square;
}

// Fixed points of a random permutation: mean 1, variance 1.
double fixed_points_z(const MakeOrder& make, std::uint64_t epochs, std::uint64_t n) {
  double sum = 0;
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    const Ids order = make(epoch, n);
    for (std::uint64_t index = 0; index < n; ++index) sum += order[index] == index ? 1 : 0;
  }
  const auto count = static_cast<double>(epochs);
  return (sum / count - 1) * std::sqrt(count);
}

// Neighbours that stay neighbours: mean 2(n-1)/n, variance near 2.
template <class Make>
double adjacent_pairs_z(Make make, std::uint64_t keys, std::uint64_t n) {
  double sum = 0;
  for (std::uint64_t k = 0; k < keys; ++k) {
    const auto permutation = make(hash(21, k), n);
    std::uint64_t last = permutation(0);
    for (std::uint64_t index = 1; index < n; ++index) {
      const std::uint64_t now = permutation(index);
      sum += now - last == 1 || last - now == 1 ? 1 : 0;
      last = now;
    }
  }
  const auto count = static_cast<double>(keys);
  const double mean = 2 * (static_cast<double>(n) - 1) / static_cast<double>(n);
  return (sum / count - mean) * std::sqrt(count / 2);
}

// Pairs of indices that agree in the row they come from and in how far their column moved.
template <class MoveIndex>
double equal_half_pairs(MoveIndex move_index, std::uint64_t n, std::uint64_t columns) {
  std::vector<std::uint16_t> table(((n + columns - 1) / columns) * columns);
  double pairs = 0;
  for (std::uint64_t index = 0; index < n; ++index) {
    const std::uint64_t row = index / columns;
    const std::uint64_t moved = (move_index(index) % columns + columns - index % columns) % columns;
    pairs += table[row * columns + moved]++;
  }
  return pairs;
}

// At n = 10,000 (100 x 100): 495,000 pairs share a row, of each 100 in 9999 move alike: 4950.5.
// Near a Poisson count, hence the variance.
double half_table_z(std::size_t rounds, std::uint64_t keys) {
  constexpr std::uint64_t kPlaces = 10'000;
  constexpr double kMean = 495'000.0 * 100 / 9999;
  double sum = 0;
  for (std::uint64_t k = 0; k < keys; ++k) {
    const Network network(hash(22, k), kPlaces, rounds);
    sum += equal_half_pairs(network, kPlaces, network.columns());
  }
  const auto count = static_cast<double>(keys);
  return (sum / count - kMean) / std::sqrt(kMean / count);
}

// How indices in one epoch go with indices in the next: correlations times sqrt(n - 1) are normal.
double epoch_correlation_z(const MakeOrder& make, std::uint64_t epochs, std::uint64_t n) {
  const auto indices_of = [&](std::uint64_t epoch) {
    const Ids order = make(epoch, n);
    std::vector<double> indices(n);
    for (std::uint64_t index = 0; index < n; ++index) {
      indices[order[index]] = static_cast<double>(index);
    }
    return indices;
  };
  const auto count = static_cast<double>(n);
  const double mean = (count - 1) / 2;
  const double variance = (count * count - 1) / 12;
  std::vector<double> last = indices_of(0);
  double sum = 0;
  for (std::uint64_t epoch = 1; epoch <= epochs; ++epoch) {
    std::vector<double> now = indices_of(epoch);
    double covariance = 0;
    for (std::uint64_t s = 0; s < n; ++s) covariance += (last[s] - mean) * (now[s] - mean);
    sum += covariance / count / variance;
    last = std::move(now);
  }
  return sum * std::sqrt(count - 1) / std::sqrt(static_cast<double>(epochs));
}

// Pairs in one batch that meet again in one batch of the next epoch, over chance.
double repeat_pair(const std::vector<Ids>& epochs, std::uint64_t batch) {
  const std::uint64_t n = epochs[0].size();
  std::vector<std::uint32_t> next_batch(n);
  std::vector<std::uint16_t> met(n / batch + 1);
  double pairs = 0;
  double repeated = 0;
  for (std::size_t e = 0; e + 1 < epochs.size(); ++e) {
    for (std::uint64_t index = 0; index < n; ++index) {
      next_batch[epochs[e + 1][index]] = static_cast<std::uint32_t>(index / batch);
    }
    for (std::uint64_t first = 0; first + batch <= n; first += batch) {
      for (std::uint64_t i = first; i < first + batch; ++i) {
        repeated += met[next_batch[epochs[e][i]]]++;
      }
      for (std::uint64_t i = first; i < first + batch; ++i) met[next_batch[epochs[e][i]]] = 0;
      pairs += static_cast<double>(batch) * static_cast<double>(batch - 1) / 2;
    }
  }
  return repeated / pairs * static_cast<double>(n - 1) / static_cast<double>(batch - 1);
}

// Chi-square per degree of the storage percentiles in each batch; 1 where a batch is as mixed as a
// random one (a batch is drawn without replacement, which hardly matters at this size).
double mix_of(const std::vector<Ids>& epochs, std::uint64_t batch) {
  double chi_square = 0;
  double degrees = 0;
  const std::uint64_t n = epochs[0].size();
  const double expected = static_cast<double>(batch) / 100;
  for (const Ids& order : epochs) {
    for (std::uint64_t first = 0; first + batch <= n; first += batch) {
      std::array<int, 100> seen{};
      for (std::uint64_t i = first; i < first + batch; ++i) ++seen[order[i] * 100 / n];
      for (const int count : seen) {
        chi_square += (count - expected) * (count - expected) / expected;
      }
      degrees += 99;
    }
  }
  return chi_square / degrees;
}

// Mean distance in the order, over N, of samples stored side by side.
double neighbour_distance(const Ids& order) {
  Ids index_of(order.size());
  for (std::uint64_t index = 0; index < order.size(); ++index) index_of[order[index]] = index;
  double sum = 0;
  for (std::size_t s = 1; s < order.size(); ++s) {
    sum += std::abs(static_cast<double>(index_of[s]) - static_cast<double>(index_of[s - 1]));
  }
  const auto n = static_cast<double>(order.size());
  return sum / (n - 1) / n;
}

// Pass `pass` of every lane of a generation, lanes in turn.
Ids relaxed_epoch(std::uint32_t pass, const order::LaneSizes& sizes, std::uint64_t generation = 0,
                  std::uint8_t run_shift = 0) {
  order::Expander expander;
  const order::GenerationOrder order{Order::relaxed, kRoot, generation, sizes, run_shift};
  Ids epoch;
  std::vector<SampleId> block;
  for (std::uint32_t lane = 0; lane < sizes.lanes(); ++lane) {
    for (std::uint32_t b = 0; b < sizes.blocks_of(lane); ++b) {
      const order::BlockName name{generation, lane, pass, b};
      expander.expand(order.lineage(name, DatasetId(0), PipelineId(0), 0), sizes.samples, block);
      for (const SampleId id : block) epoch.push_back(id.value);
    }
  }
  return epoch;
}

// Blocks of a fixed cut, in a new order each epoch: what is not done.
Ids blocks_kept_whole(std::uint64_t epoch, std::uint64_t n, std::uint64_t block) {
  const Ids cut = product(0, n);
  const order::Permutation blocks(key_of(epoch), n / block);
  Ids order;
  for (std::uint64_t b = 0; b < n / block; ++b) {
    const std::uint64_t first = blocks(b) * block;
    order.insert(order.end(), cut.begin() + static_cast<std::ptrdiff_t>(first),
                 cut.begin() + static_cast<std::ptrdiff_t>(first + block));
  }
  return order;
}

}  // namespace

TEST_SUITE("figures") {
  TEST_CASE("index table: no part of the samples prefers a part of the epoch") {
    CHECK(index_table_chi_square(product, 2000, 1000) < kGreatestChiSquare49);
    CHECK(index_table_chi_square(product, 40, 70'001) < kGreatestChiSquare49);
  }

  TEST_CASE("index table: canaries are caught") {
    CHECK(index_table_chi_square(naive_swap, 2000, 1000) > kGreatestChiSquare49);
    CHECK(index_table_chi_square(without_epoch, 2000, 1000) > kGreatestChiSquare49);
    CHECK(index_table_chi_square(modulo_of_low_bits, 2000, 1000) > kGreatestChiSquare49);
    CHECK(index_table_chi_square(first_element_fixed, 2000, 1000) > kGreatestChiSquare49);
  }

  TEST_CASE("fixed points, and the canaries Sattolo and first element fixed") {
    CHECK(std::abs(fixed_points_z(product, 2000, 1000)) < kGreatestZ);
    CHECK(std::abs(fixed_points_z(product, 40, 70'001)) < kGreatestZ);
    CHECK(fixed_points_z(sattolo, 2000, 1000) < -kGreatestZ);
    CHECK(fixed_points_z(first_element_fixed, 2000, 1000) > kGreatestZ);
  }
}

TEST_CASE("the network written again is the product's") {
  const std::uint64_t key = hash(1, 2, 3);
  for (const std::uint64_t n : {65'537u, 70'001u, 1'281'167u}) {
    const Network again(key, n, 8);
    const order::Permutation permutation(key, n);
    for (std::uint64_t index = 0; index < n; index += 13) {
      REQUIRE(again(index) == permutation(index));
    }
  }
}

TEST_SUITE("figures") {
  TEST_CASE("adjacent pairs; four rounds are caught") {
    const auto of_product = [](std::uint64_t key, std::uint64_t n) {
      return order::Permutation(key, n);
    };
    const auto four_rounds = [](std::uint64_t key, std::uint64_t n) { return Network(key, n, 4); };
    CHECK(std::abs(adjacent_pairs_z(of_product, 300, 70'001)) < kGreatestZ);
    CHECK(adjacent_pairs_z(four_rounds, 150, 70'001) > kGreatestZ);
  }

  TEST_CASE("half tables at n = 10,000: eight rounds pass; six and four are caught") {
    CHECK(std::abs(half_table_z(8, 600)) < kGreatestZ);
    CHECK(half_table_z(6, 300) > kGreatestZ);
    CHECK(half_table_z(4, 20) > kGreatestZ);
  }

  TEST_CASE(
      "indices in successive epochs have nothing to do with each other; canaries are caught") {
    CHECK(std::abs(epoch_correlation_z(product, 2000, 1000)) < kGreatestZ);
    CHECK(epoch_correlation_z(without_epoch, 2000, 1000) > kGreatestZ);
    CHECK(epoch_correlation_z(naive_swap, 2000, 1000) > kGreatestZ);
  }

  TEST_CASE("pairs, mixing and neighbours of strict epochs are as in random ones") {
    constexpr std::uint64_t kSamples = 200'000;
    std::vector<Ids> epochs;
    for (std::uint64_t epoch = 0; epoch < 5; ++epoch) epochs.push_back(product(epoch, kSamples));
    CHECK(repeat_pair(epochs, 256) == doctest::Approx(1).epsilon(0.05));
    CHECK(mix_of(epochs, 256) == doctest::Approx(1).epsilon(0.01));
    CHECK(neighbour_distance(epochs[0]) == doctest::Approx(1.0 / 3).epsilon(0.01));
  }

  TEST_CASE("pairs: a generation not renewed shows as the number of its lanes; kept blocks more") {
    constexpr order::LaneSizes kSizes{204'800, 100, 64};  // 32 lanes of 64 blocks
    std::vector<Ids> passes;
    for (std::uint32_t pass = 0; pass < 3; ++pass) passes.push_back(relaxed_epoch(pass, kSizes));
    // Two of one lane, of its 6400 samples, meet again with chance 255/6399: 32 times as often.
    CHECK(repeat_pair(passes, 256) == doctest::Approx(32).epsilon(0.05));
    std::vector<Ids> kept;
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      kept.push_back(blocks_kept_whole(epoch, kSizes.samples, 256));
    }
    CHECK(repeat_pair(kept, 256) > 700);
  }

  TEST_CASE("runs: how far from a full shuffle follows from the runs in a lane") {
    constexpr std::uint64_t kSamples = 1 << 20;
    constexpr std::uint8_t kShift = 6;
    constexpr double kBatch = 256;
    for (const std::uint32_t runs : {64u, 256u, 1024u, 4096u}) {  // in a lane
      CAPTURE(runs);
      const order::LaneSizes sizes{kSamples, 64, runs};
      std::vector<Ids> epochs;
      for (std::uint64_t epoch = 0; epoch < 5; ++epoch)
        epochs.push_back(relaxed_epoch(0, sizes, epoch, kShift));
      // Of two samples in a batch one in `runs` pairs is of one run. Such a pair is in one lane of
      // the next epoch, too.
      const double lanes = sizes.lanes();
      CHECK(mix_of(epochs, 256) == doctest::Approx(1 + (kBatch - 1) / runs).epsilon(0.02));
      CHECK(repeat_pair(epochs, 256) == doctest::Approx(1 + (lanes - 1) / runs).epsilon(0.02));
      CHECK(neighbour_distance(epochs[0]) == doctest::Approx(1 / (3 * lanes)).epsilon(0.04));
    }
    // The canary: runs that are not mixed within a lane.
    CHECK(mix_of({relaxed_epoch(0, {kSamples, 64, 1}, 0, kShift)}, 256) > 50);
  }
}

TEST_SUITE("long") {
  TEST_CASE("half tables, full size") {
    CHECK(std::abs(half_table_z(8, 4000)) < kGreatestZ);
    CHECK(half_table_z(6, 4000) > kGreatestZ);
    CHECK(half_table_z(4, 4000) > kGreatestZ);
  }

  TEST_CASE("half table of the product at ImageNet's size") {
    // 1132 x 1132, the last row of 875: 724,387,501 pairs share a row, one in 1132 moves alike.
    constexpr std::uint64_t kPlaces = 1'281'167;
    constexpr double kMean = 724'387'501.0 / 1132;
    double sum = 0;
    for (std::uint64_t k = 0; k < 60; ++k) {
      sum += equal_half_pairs(order::Permutation(hash(23, k), kPlaces), kPlaces, 1132);
    }
    CHECK(std::abs(sum / 60 - kMean) < kGreatestZ * std::sqrt(kMean / 60));
  }

  TEST_CASE("pairs, mixing and neighbours at ImageNet's size") {
    constexpr std::uint64_t kSamples = 1'281'167;
    std::vector<Ids> epochs;
    for (std::uint64_t epoch = 0; epoch < 5; ++epoch) epochs.push_back(product(epoch, kSamples));
    CHECK(repeat_pair(epochs, 256) == doctest::Approx(1).epsilon(0.05));
    CHECK(mix_of(epochs, 256) == doctest::Approx(1).epsilon(0.01));
    CHECK(neighbour_distance(epochs[0]) == doctest::Approx(1.0 / 3).epsilon(0.003));
  }
}

}  // namespace batchflow::test::order_statistics_test
