// The logarithm and the exponential that policies may use: as good as the standard library's, and
// the same bits everywhere.
#include "core/base/real_functions.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/base/random.h"

namespace batchflow::test::real_functions_test {

namespace {

// In units of the last place of a number near the right one.
double distance(double is, double right) {
  if (is == right) return 0;
  return std::abs(is - right) / std::max(std::abs(right) * 0x1p-52, 0x1p-1074);
}

}  // namespace

TEST_CASE("both agree with the standard library to a few units of the last place") {
  Random random(5);
  double log_worst = 0;
  double exp_worst = 0;
  for (int i = 0; i < 200'000; ++i) {
    const double x = std::ldexp(1 + random.unit(), static_cast<int>(random.below(2000)) - 1000);
    log_worst = std::max(log_worst, distance(log_of(x), std::log(x)));
    const double y = (random.unit() - 0.5) * 1400;
    exp_worst = std::max(exp_worst, distance(exp_of(y), std::exp(y)));
  }
  CHECK(log_worst <= 4);
  CHECK(exp_worst <= 8);
  // Near 1 the logarithm is small, and is still right.
  for (int i = 1; i < 50; ++i) {
    const double x = 1 + std::ldexp(1.0, -i);
    CHECK(distance(log_of(x), std::log(x)) <= 4);
    CHECK(distance(log_of(1 / x), std::log(1 / x)) <= 4);
  }
}

TEST_CASE("ends of the numbers") {
  CHECK(log_of(1) == 0);
  CHECK(exp_of(0) == 1);
  CHECK(log_of(0) == -INFINITY);
  CHECK(std::isnan(log_of(-1)));
  CHECK(std::isnan(log_of(NAN)));
  CHECK(std::isnan(exp_of(NAN)));
  CHECK(log_of(INFINITY) == INFINITY);
  CHECK(exp_of(INFINITY) == INFINITY);
  CHECK(exp_of(-INFINITY) == 0);
  CHECK(exp_of(-1e9) == 0);
  CHECK(log_of(0x1p-1074) == doctest::Approx(-744.4400719213812));
  CHECK(exp_of(709.7) < INFINITY);
}

TEST_CASE("the bits are these on every machine") {
  std::uint64_t folded = 0;
  Random random(6);
  for (int i = 0; i < 1000; ++i) {
    const double x = random.unit() * 100;
    folded = hash(folded, std::bit_cast<std::uint64_t>(log_of(x)),
                  std::bit_cast<std::uint64_t>(exp_of(x - 50)));
  }
  CHECK(folded == 5092075129250440594u);
}

}  // namespace batchflow::test::real_functions_test
