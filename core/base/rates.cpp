#include "core/base/rates.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/base/seconds.h"

namespace batchflow {

namespace {

constexpr double kLog2 = 0.693147180559945309417;
constexpr std::int64_t kHalfLivesAtMost = 1000;  // then nothing is left

// 2^-x for x in [0, 1): the series of e^-y at y = x log 2, by Horner's rule; twelve terms leave
// y^12 / 12! < 3e-11. Divisions would take three times as long.
double half_to_the(double x) {
  constexpr double kOver[] = {1.0 / 11, 1.0 / 10, 1.0 / 9, 1.0 / 8, 1.0 / 7, 1.0 / 6,
                              1.0 / 5,  1.0 / 4,  1.0 / 3, 1.0 / 2, 1.0};
  const double y = x * kLog2;
  double value = 1;
  for (const double over : kOver) value = 1 - y * over * value;
  return value;
}

}  // namespace

double decay(Duration elapsed, Duration half_life) {
  BF_CHECK(elapsed.count() >= 0 && half_life.count() > 0);
  if (elapsed.count() == 0) return 1;
  const std::int64_t whole = elapsed / half_life;
  if (whole >= kHalfLivesAtMost) return 0;
  const double rest =
      static_cast<double>((elapsed % half_life).count()) / static_cast<double>(half_life.count());
  return std::ldexp(half_to_the(rest), -static_cast<int>(whole));
}

double FadingSum::at(Instant now) const {
  if (sum_ == 0) return 0;
  return sum_ * decay(std::max(now - last_, Duration(0)), half_life_);
}

void FadingSum::add(Instant now, double amount) {
  sum_ = at(now) + amount;
  last_ = std::max(last_, now);
}

void SmoothedRate::add(Instant now, double amount) {
  if (begin_ == kNever) begin_ = now;
  sum_.add(now, amount);
}

double SmoothedRate::per_second(Instant now) const {
  if (begin_ == kNever || now <= begin_) return 0;
  const double sum = sum_.at(now);
  if (sum == 0) return 0;
  // A steady rate r since the beginning gives the sum r * half_life / log 2 * (1 - decay).
  const double seen = 1 - decay(now - begin_, sum_.half_life());
  return sum * kLog2 / (seconds(sum_.half_life()) * seen);
}

double HeldMean::sum_at(Instant now) const {
  const double left = decay(std::max(now - last_, Duration(0)), half_life_);
  return sum_ * left + value_ * (1 - left);
}

double HeldMean::at(Instant now) const {
  if (begin_ == kNever) return 0;
  now = std::max(now, last_);
  return now > begin_ ? sum_at(now) / (1 - decay(now - begin_, half_life_)) : value_;
}

void HeldMean::set(Instant now, double value) {
  if (begin_ == kNever) begin_ = last_ = now;
  sum_ = sum_at(now);
  last_ = std::max(last_, now);
  value_ = value;
}

void HeldMean::was(Instant since, Instant now, double value) {
  if (begin_ == kNever) begin_ = last_ = since;
  value_ = value;
  set(now, value);
}

}  // namespace batchflow
