// Means, intervals and differences, against values from tables and worked out by hand.
#include "sim/figures.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace batchflow::test::statistics_test {

using Values = std::vector<double>;

TEST_CASE("Student's t is that of the tables") {
  const std::pair<double, double> table[] = {
      {1, 12.7062}, {2, 4.3027},  {4, 2.7764},  {10, 2.2281},  {11, 2.2010},
      {15, 2.1314}, {30, 2.0423}, {60, 2.0003}, {120, 1.9799}, {1e9, 1.95996}};
  for (const auto& [freedom, quantile] : table) {
    CAPTURE(freedom);
    CHECK(std::abs(sim::student_t(freedom) - quantile) < 2e-4);
  }
  for (double freedom = 1; freedom < 40; freedom += 0.25) {
    CHECK(sim::student_t(freedom) > sim::student_t(freedom + 0.25));
  }
}

TEST_CASE("a mean and its interval") {
  // Variance 2.5, standard error sqrt(2.5 / 5), times t(4).
  const sim::Estimate five = sim::estimate(Values{1, 2, 3, 4, 5});
  CHECK(five.mean == doctest::Approx(3));
  CHECK(five.margin == doctest::Approx(2.7764451 * std::sqrt(0.5)));
  CHECK(five.count == 5);
  CHECK(sim::estimate(Values{2, 2, 2}).margin == 0);
  CHECK(std::isinf(sim::estimate(Values{7}).margin));
}

TEST_CASE("differences: paired by seed, or of independent runs") {
  // Each is 1 more, although the values vary by 10: certain when paired, nothing when not.
  const Values a{10, 20, 30};
  const Values b{11, 21, 31};
  CHECK(sim::paired_difference(a, b).mean == doctest::Approx(1));
  CHECK(sim::paired_difference(a, b).margin == doctest::Approx(0));
  CHECK(sim::is_significant(sim::paired_difference(a, b)));
  CHECK_FALSE(sim::is_significant(sim::difference(a, b)));
  // Welch: 1/3 + 5/3 of variance, 4.0755 degrees of freedom.
  const sim::Estimate welch = sim::difference(Values{1, 2, 3}, Values{2, 4, 6, 8});
  CHECK(welch.mean == doctest::Approx(3));
  CHECK(welch.margin == doctest::Approx(sim::student_t(4.0755) * std::sqrt(2.0)).epsilon(1e-4));
  CHECK_FALSE(sim::is_significant(welch));
  CHECK_FALSE(sim::is_significant(sim::difference(Values{1}, Values{2})));
  CHECK(sim::is_significant(sim::difference(Values{1, 1}, Values{2, 2})));
  CHECK_FALSE(sim::is_significant(sim::difference(Values{1, 1}, Values{1, 1})));
}

}  // namespace batchflow::test::statistics_test
