// How many look-ups find their sample where a part of a dataset is kept.
#include "policies/hit_curve.h"

#include <doctest/doctest.h>

namespace batchflow::test::hit_curve_test {

namespace {

using policies::HitCurve;

// As if so much were kept and found for a minute.
HitCurve learned(double kept, double found, double guess = 0.7) {
  HitCurve curve(guess);
  for (int second = 1; second <= 60; ++second) {
    curve.learn(Instant(std::chrono::seconds(second)), kept, found);
  }
  return curve;
}

}  // namespace

TEST_CASE("a power is the same for all and none, and cut beyond them") {
  CHECK(HitCurve::power(0, 0.5) == 0);
  CHECK(HitCurve::power(1, 0.5) == 1);
  CHECK(HitCurve::power(1.5, 0.5) == 1);
  CHECK(HitCurve::power(-1, 0.5) == 0);
  CHECK(HitCurve::power(0.3, 1) == 0.3);
  CHECK(HitCurve::power(0.09, 0.5) == doctest::Approx(0.3));
}

TEST_CASE("as much is found as is kept until something else was learned") {
  CHECK(HitCurve().found(0.3) == 0.3);
  CHECK(HitCurve(0.5).found(0.09) == doctest::Approx(0.3));
}

TEST_CASE("the exponent follows what is found, from the root to the part itself") {
  CHECK(learned(0.25, 0.5).found(0.04) == doctest::Approx(0.2).epsilon(0.02));
  CHECK(learned(0.25, 0.25).found(0.04) == doctest::Approx(0.04).epsilon(0.05));
  CHECK(learned(0.25, 0.1).exponent() == doctest::Approx(1).epsilon(0.02));
  CHECK(learned(0.25, 0.9).exponent() == doctest::Approx(0.5).epsilon(0.02));
}

TEST_CASE("nothing is learned where it would say nothing") {
  CHECK(learned(0, 0).exponent() == 0.7);
  CHECK(learned(0.01, 0.5).exponent() == 0.7);  // hardly anything is kept
  CHECK(learned(0.99, 0.99).exponent() == 0.7);
  CHECK(learned(0.3, 0).exponent() == 0.7);  // nothing was found yet
  HitCurve curve(0.7);
  curve.learn(Instant(std::chrono::seconds(1)), 0.1, 0.4);
  const double before = curve.exponent();
  curve.learn(Instant(std::chrono::seconds(2)), 0.9, 0.4);  // much has come in
  CHECK(curve.exponent() == before);
}

}  // namespace batchflow::test::hit_curve_test
