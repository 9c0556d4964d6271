#include "core/engine/stall_meter.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/quantile_sketch.h"
#include "core/base/random.h"

namespace batchflow::test::stall_meter_test {
using namespace std::chrono_literals;

namespace {
Instant at(Duration since_start) {
  return Instant(since_start);
}
}  // namespace

TEST_CASE("decay halves each half-life, to nine digits") {
  CHECK(decay(0s, 5s) == 1);
  CHECK(decay(5s, 5s) == 0.5);
  CHECK(decay(50s, 5s) == 1.0 / 1024);
  CHECK(decay(1'000'000s, 5s) == 0);
  for (int i = 0; i < 1000; ++i) {
    const double exact = std::exp2(-i * 0.013);
    REQUIRE(std::abs(decay(i * 13ms, 1s) / exact - 1) < 1e-9);
  }
}

TEST_CASE("a steady rate is found from the first half-life on, at irregular instants too") {
  Random random(1);
  SmoothedRate rate(10s);
  CHECK(rate.per_second(at(5s)) == 0);
  Duration now = 3s;
  for (int i = 0; i < 200'000; ++i) {
    now += Duration(random.below(2'000'000));  // 1000 a second in the mean
    rate.add(at(now), 2);
    if (now > 13s && i % 1000 == 0) {
      // The sd of a Poisson rate seen through a half-life of 10 s is below 1 %.
      REQUIRE(rate.per_second(at(now)) == doctest::Approx(2000).epsilon(0.05));
    }
  }
  const double before = rate.per_second(at(now));
  CHECK(rate.per_second(at(now + 10s)) == doctest::Approx(before / 2).epsilon(1e-4));
}

TEST_CASE("a mean over time follows a change by one half each half-life") {
  HeldMean mean(10s);
  CHECK(mean.at(at(5s)) == 0);
  mean.set(at(5s), 4);
  for (const Duration now : {0s, 5s, 6s, 100s}) CHECK(mean.at(at(now)) == doctest::Approx(4));
  mean.set(at(1000s), 8);
  CHECK(mean.at(at(1010s)) == doctest::Approx(6));
  CHECK(mean.at(at(1020s)) == doctest::Approx(7));
  // How often it is set to the same value makes no difference.
  for (int i = 1; i <= 100; ++i) mean.set(at(1020s + i * 100ms), 8);
  CHECK(mean.at(at(1030s)) == doctest::Approx(7.5));
  // What was since the last call counts as that much time.
  mean.was(at(0s), at(1040s), 3.5);
  CHECK(mean.at(at(1040s)) == doctest::Approx(5.5));
}

TEST_CASE("a mean over time counts from its first value on") {
  HeldMean mean(10s);
  mean.set(at(100s), 1);
  mean.set(at(110s), 0);
  // The first ten seconds count for half of the second ten.
  CHECK(mean.at(at(110s)) == doctest::Approx(1));
  CHECK(mean.at(at(120s)) == doctest::Approx(1.0 / 3));
  HeldMean late(10s);
  late.was(at(50s), at(60s), 2);
  CHECK(late.at(at(60s)) == doctest::Approx(2));
}

TEST_CASE("quantiles are within one part in 128, in bounded memory") {
  Random random(2);
  QuantileSketch sketch;
  std::vector<std::uint64_t> values;
  for (int i = 0; i < 100'000; ++i) {
    values.push_back(random.draw() >> random.below(64));
    sketch.add(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double q : {0.0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0}) {
    CAPTURE(q);
    const auto exact = static_cast<double>(
        values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5)]);
    const auto found = static_cast<double>(sketch.quantile(q));
    CHECK(std::abs(found - exact) <= exact * QuantileSketch::kRelativeErrorMax);
  }
  CHECK(sketch.least() == values.front());
  CHECK(sketch.greatest() == values.back());
  sketch.add(0);
  sketch.add(UINT64_MAX);
  CHECK(sketch.quantile(1) == UINT64_MAX);
  CHECK(sketch.memory_bytes() <= 2 * QuantileSketch::kBucketsMost * 8);
}

TEST_CASE("small values are exact, and parts merge to the whole in any order") {
  QuantileSketch small;
  for (std::uint64_t i = 0; i <= 100; ++i) small.add(i);
  for (std::uint64_t i = 0; i <= 100; ++i) {
    REQUIRE(small.quantile(static_cast<double>(i) / 100) == i);
  }
  CHECK(small.mean() == 50);
  CHECK(QuantileSketch().quantile(0.5) == 0);

  QuantileSketch whole, a, b, ab, ba;
  Random random(3);
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t value = random.below(1 << (1 + i % 30));
    whole.add(value);
    (i % 3 ? a : b).add(value);
  }
  ab.merge(a);
  ab.merge(b);
  ba.merge(b);
  ba.merge(a);
  ba.merge(QuantileSketch());
  for (int i = 0; i <= 100; ++i) {
    REQUIRE(ab.quantile(i / 100.0) == whole.quantile(i / 100.0));
    REQUIRE(ba.quantile(i / 100.0) == whole.quantile(i / 100.0));
  }
  CHECK(ab.mean() == whole.mean());
  CHECK(ab.count() == 10'000);
}

TEST_CASE("a rank stalls while it has asked and holds nothing; computing is not stalling") {
  engine::StallMeter meter;
  CHECK_FALSE(meter.stalling());
  meter.wanted(at(1s), 2);  // asked for two, has none
  CHECK(meter.stalling());
  meter.delivered(at(3s));  // 2 s of stall
  CHECK_FALSE(meter.stalling());
  meter.consumed(at(4s), 1s);  // the second is not there
  CHECK(meter.stalling());
  CHECK(meter.stalling_for(at(4500ms)) == 500ms);
  meter.delivered(at(5s));  // 1 s
  meter.consumed(at(6s), 1s);
  CHECK_FALSE(meter.stalling());  // it has asked for nothing
  meter.wanted(at(10s), 1);
  CHECK(meter.stall(at(11s)) == 4s);
  CHECK(meter.stalls() == 3);
  CHECK(meter.compute() == 2s);
  CHECK(meter.stall_fraction(at(11s)) == doctest::Approx(4.0 / 6));
}

TEST_CASE("a batch consumed before its delivery is reported ends the stall once") {
  engine::StallMeter meter;
  meter.wanted(at(0s), 2);
  meter.consumed(at(3s), 1s);  // so it was delivered, at the latest now
  CHECK(meter.stall(at(3s)) == 3s);
  meter.delivered(at(4s));  // the report of that delivery
  CHECK(meter.stalling());
  meter.delivered(at(5s));  // of the second batch
  CHECK_FALSE(meter.stalling());
  CHECK(meter.stall(at(9s)) == 5s);
}

}  // namespace batchflow::test::stall_meter_test
