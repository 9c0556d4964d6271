// A logarithm and an exponential function that use additions, multiplications and divisions alone.
// So they give the same value on every machine, which the standard library does not promise.
// Policies may use no others, since what they decide is replayed elsewhere. Both are right to some
// fifteen digits.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace batchflow {

inline constexpr double kLn2High = 0x1.62e42fefa0000p-1;  // its product with an exponent is exact
inline constexpr double kLn2Low = 0x1.cf79abc9e3b3ap-40;

// The natural logarithm: minus infinity for 0, not a number for less and for not a number.
constexpr double log_of(double x) {
  if (!(x >= 0)) return std::numeric_limits<double>::quiet_NaN();
  if (x == 0) return -std::numeric_limits<double>::infinity();
  if (x > std::numeric_limits<double>::max()) return x;
  int exponent = 0;
  if (x < std::numeric_limits<double>::min()) {  // subnormal
    x *= 0x1p54;
    exponent = -54;
  }
  constexpr std::uint64_t kFraction = (std::uint64_t{1} << 52) - 1;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  exponent += static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & kFraction) | std::uint64_t{1023} << 52);
  if (m > 0x1.6a09e667f3bcdp0) {  // the root of 2
    m /= 2;
    ++exponent;
  }
  // 2 artanh((m - 1) / (m + 1))
  const double s = (m - 1) / (m + 1);
  double sum = 0;
  for (int k = 23; k >= 1; k -= 2) sum = sum * s * s + 1.0 / k;
  return exponent * kLn2High + (exponent * kLn2Low + 2 * s * sum);
}

// e to the power of x: 0 where that is below all normal numbers.
constexpr double exp_of(double x) {
  if (x != x) return x;
  if (x > 709.78) return std::numeric_limits<double>::infinity();
  if (x < -708.39) return 0;
  const double halves = x * 0x1.71547652b82fep0;  // over ln 2
  const int exponent = static_cast<int>(halves < 0 ? halves - 0.5 : halves + 0.5);
  const double r = (x - exponent * kLn2High) - exponent * kLn2Low;
  double sum = 1;
  for (int k = 17; k >= 1; --k) sum = 1 + sum * r / k;
  // In two factors, because 2 to the power of 1024 is more than a double holds.
  const int half = exponent / 2;
  const auto power = [](int degree) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(degree + 1023) << 52);
  };
  return sum * power(half) * power(exponent - half);
}

}  // namespace batchflow
