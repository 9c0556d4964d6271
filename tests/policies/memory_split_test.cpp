// The split of memory between forms, against splits worked out by hand and against all points of a
// grid.
#include "policies/memory_split.h"

#include <doctest/doctest.h>

#include "core/base/random.h"

namespace batchflow::test::memory_split_test {

namespace {

using policies::MemorySplit;
using Kept = MemorySplit::Kept;

double bytes_of(const std::vector<Kept>& kept, const MemorySplit::Parts& parts) {
  double bytes = 0;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    bytes += kept[i].bytes * parts[i];
  }
  return bytes;
}

}  // namespace

TEST_CASE("workers that limit get decoded samples, a store that limits gets stored ones") {
  const std::vector<Kept> kept{{0, true, 100, 0, 10}, {0, false, 500, 1, 10}};
  MemorySplit split;
  // Two seconds of work each second for one worker; the store can do a hundred times as much.
  MemorySplit::Parts parts = split.solve(kept, {2, 1, 10, 1000}, 250);
  CHECK(parts[0] == 0);
  CHECK(parts[1] == 0.5);
  CHECK(split.load(parts) == doctest::Approx(1.5));
  // The store is to bring twice as much as it can.
  parts = split.solve(kept, {0.1, 1, 10, 5}, 50);
  CHECK(parts[0] == 0.5);
  CHECK(parts[1] == 0);
  CHECK(split.load(parts) == doctest::Approx(1));
  // All of it is kept as stored, and what is left replaces that by decoded samples, 400 bytes each.
  parts = split.solve(kept, {2, 1, 10, 0.1}, 300);
  CHECK(parts[0] == doctest::Approx(0.5));
  CHECK(parts[1] == doctest::Approx(0.5));
}

TEST_CASE("where both limit, both are loaded alike") {
  // 100 bytes keep the store from 40 bytes a second, of which it can do 10; or a fifth of them, and
  // a fifth of the second of work. With e bytes for stored samples and the rest for decoded ones,
  // x = (100 - e) / 500 of all: 2 - x = 4 - 4 e / 100 - 4 x, so e = 41.18 and the load is 1.882.
  const std::vector<Kept> kept{{0, true, 100, 0, 40}, {0, false, 500, 1, 40}};
  MemorySplit split;
  const MemorySplit::Parts parts = split.solve(kept, {2, 1, 40, 10}, 100);
  CHECK(parts[0] == doctest::Approx(0.4118).epsilon(1e-3));
  CHECK(parts[1] == doctest::Approx(0.1176).epsilon(1e-3));
  CHECK(split.load(parts) == doctest::Approx(1.8824).epsilon(1e-4));
}

TEST_CASE("memory goes to the dataset of which a byte saves more") {
  // The second is read four times as often.
  const std::vector<Kept> kept{
      {0, false, 100, 1, 1}, {1, false, 100, 4, 4}, {0, true, 20, 0, 1}, {1, true, 20, 0, 4}};
  MemorySplit split;
  const MemorySplit::Parts parts = split.solve(kept, {10, 1, 5, 1000}, 150);
  CHECK(parts[1] == 1);
  CHECK(parts[0] == 0.5);
  CHECK(parts[2] + parts[3] == 0);
}

TEST_CASE("workers with time to spare leave the store as much as they can") {
  const std::vector<Kept> kept{{0, true, 100, 0, 10}, {0, false, 500, 0.5, 10}};
  MemorySplit split;
  // Decoding all takes 0.8 of the worker, and the store is hardly used.
  const MemorySplit::Parts parts = split.solve(kept, {0.8, 1, 10, 1000}, 100);
  CHECK(parts[0] == 1);
  CHECK(parts[1] == 0);
}

TEST_CASE("a dataset of which the first tenth is found most often does not get all") {
  // Both are a hundred bytes, and their reads are worth the same. Of the second, the root of what
  // is kept is found: of the part p another byte finds 1 / (2 sqrt(p)) of what it finds of the
  // first. So it gets a quarter, and the first all that is left.
  const std::vector<Kept> kept{{0, true, 100, 0, 10, 1}, {1, true, 100, 0, 10, 0.5}};
  MemorySplit split;
  MemorySplit::Parts parts = split.solve(kept, {0, 1, 20, 1}, 75);
  CHECK(parts[0] == doctest::Approx(0.5).epsilon(0.05));
  CHECK(parts[1] == doctest::Approx(0.25).epsilon(0.1));
  CHECK(split.store_load(parts) == doctest::Approx(20 - 5 - 5).epsilon(0.01));
  // With less than that there is nothing for the first, and with all of it both are kept.
  parts = split.solve(kept, {0, 1, 20, 1}, 20);
  CHECK(parts[0] == 0);
  CHECK(parts[1] == doctest::Approx(0.2));
  parts = split.solve(kept, {0, 1, 20, 1}, 200);
  CHECK(parts[0] == doctest::Approx(1));
  CHECK(parts[1] == doctest::Approx(1));
}

TEST_CASE("no point of a grid is better") {
  Random random(3);
  MemorySplit split;
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    std::vector<Kept> kept;
    MemorySplit::Loads loads;
    for (const std::size_t dataset : {0, 1}) {
      const double stored = 50 + random.unit() * 100;
      const double a_second = random.unit() * 20;
      const double work = random.unit();
      const double exponent = random.below(2) == 0 ? 1 : 0.5 + random.unit() / 2;
      kept.push_back({dataset, true, stored, 0, a_second, exponent});
      kept.push_back({dataset, false, stored * (1 + random.unit() * 9), work, a_second, exponent});
      loads.workers += work * (1 + random.unit());
      loads.store += a_second;
    }
    loads.workers_most = loads.workers * (0.3 + random.unit());
    loads.store_most = loads.store * (0.3 + random.unit());
    const double memory = random.unit() * 400;
    const MemorySplit::Parts best = split.solve(kept, loads, memory);
    CHECK(bytes_of(kept, best) <= memory * (1 + 1e-9));
    CHECK(best[0] + best[1] <= 1 + 1e-9);
    CHECK(best[2] + best[3] <= 1 + 1e-9);
    constexpr int kSteps = 10;
    double least = 1e9;
    const auto part = [](int steps) { return static_cast<double>(steps) / kSteps; };
    for (int a = 0; a <= kSteps; ++a) {
      for (int b = 0; a + b <= kSteps; ++b) {
        for (int c = 0; c <= kSteps; ++c) {
          for (int d = 0; c + d <= kSteps; ++d) {
            const MemorySplit::Parts parts = {part(a), part(b), part(c), part(d)};
            if (bytes_of(kept, parts) <= memory) least = std::min(least, split.load(parts));
          }
        }
      }
    }
    // A load that does not limit still counts for a fiftieth of the other, and workers may be
    // loaded to 0.95 for the store's sake.
    CHECK(split.load(best) <= std::max(0.95, least * 1.02 + 1e-9));
  }
}

}  // namespace batchflow::test::memory_split_test
