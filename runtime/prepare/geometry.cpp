#include "runtime/prepare/geometry.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace batchflow::prepare {
namespace {

constexpr int kTries = 10;

// The sine of what lies `quarters` quarters of a turn ahead of x, for |x| <= pi / 4: by the series
// of sine or cosine, with errors in the last bit.
double sine_near_0(double x, int quarters) {
  const double square = x * x;
  double sum = 0;
  const bool is_cosine = quarters % 2 != 0;
  for (int term = is_cosine ? 16 : 17; term > 1; term -= 2)
    sum = (1 - sum) * square / (term * (term - 1));
  const double value = is_cosine ? 1 - sum : x - x * sum;
  return quarters / 2 % 2 == 0 ? value : -value;
}

double sine_ahead(double x, int quarters) {
  // Pi / 2 in three parts, of which the first two have so few bits that their products are exact.
  constexpr double kFirst = 1.57079632673412561417e+00, kSecond = 6.07710050630396597660e-11,
                   kThird = 2.02226624879595063154e-21;
  const double turns = std::nearbyint(x * 0.63661977236758134308);
  const double rest = ((x - turns * kFirst) - turns * kSecond) - turns * kThird;
  return sine_near_0(rest, (static_cast<int>(turns) % 4 + 4 + quarters) % 4);
}

Box placed(Extent2 picture, Extent2 size, Random& random) {
  const auto y = random.below(static_cast<std::uint64_t>(picture.height - size.height) + 1);
  const auto x = random.below(static_cast<std::uint64_t>(picture.width - size.width) + 1);
  return {static_cast<int>(x), static_cast<int>(y), size.width, size.height};
}

}  // namespace

int rounded(double x) {
  return static_cast<int>(
      std::nearbyint(std::min(x, static_cast<double>(std::numeric_limits<int>::max()))));
}

double sine(double x) {
  return sine_ahead(x, 0);
}

double cosine(double x) {
  return sine_ahead(x, 1);
}

double exponential(double x) {
  // e^x = (e^(x / 1024))^1024, with a series for the inner one.
  constexpr int kSquarings = 10;
  const double small = x / (1 << kSquarings);
  double sum = 1;
  for (int term = 8; term > 0; --term) sum = 1 + sum * small / term;
  for (int i = 0; i < kSquarings; ++i) sum *= sum;
  return sum;
}

double logarithm(double x) {
  // ln x = 2 (z + z^3 / 3 + z^5 / 5 + ...), z = (x - 1) / (x + 1), near 1; 2^k is taken off first.
  constexpr double kLog2 = 0.6931471805599453;
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);  // exact; in [0.5, 1)
  if (mantissa < 0.75) {
    mantissa *= 2;
    --exponent;
  }
  const double z = (mantissa - 1) / (mantissa + 1);
  double sum = 0;
  for (int odd = 33; odd > 0; odd -= 2) sum = sum * z * z + 1.0 / odd;
  return 2 * z * sum + exponent * kLog2;
}

Box random_crop(Extent2 picture, const Range& area, const Range& ratio, Random& random) {
  const double pixels = static_cast<double>(picture.width) * picture.height;
  const Range log_ratio = {logarithm(ratio.least), logarithm(ratio.most)};
  for (int i = 0; i < kTries; ++i) {
    const double target = pixels * area.draw(random);
    const double aspect = exponential(log_ratio.draw(random));
    const int width = rounded(std::sqrt(target * aspect));
    const int height = rounded(std::sqrt(target / aspect));
    if (width <= 0 || width > picture.width || height <= 0 || height > picture.height) continue;
    return placed(picture, {width, height}, random);
  }
  const double aspect = static_cast<double>(picture.width) / picture.height;
  Extent2 size = picture;
  if (aspect < ratio.least)
    size.height = std::clamp(rounded(picture.width / ratio.least), 1, picture.height);
  else if (aspect > ratio.most)
    size.width = std::clamp(rounded(picture.height * ratio.most), 1, picture.width);
  return {(picture.width - size.width) / 2, (picture.height - size.height) / 2, size.width,
          size.height};
}

Box random_part(Extent2 picture, const Range& area, const Range& ratio, Random& random) {
  const double pixels = static_cast<double>(picture.width) * picture.height;
  const Range log_ratio = {logarithm(ratio.least), logarithm(ratio.most)};
  for (int i = 0; i < kTries; ++i) {
    const double target = pixels * area.draw(random);
    const double aspect = exponential(log_ratio.draw(random));
    const int height = rounded(std::sqrt(target * aspect));
    const int width = rounded(std::sqrt(target / aspect));
    if (height < picture.height && width < picture.width)
      return placed(picture, {width, height}, random);
  }
  return {};
}

Box random_window(Extent2 picture, Extent2 size, Random& random) {
  return placed(picture, size, random);
}

Box centre_box(Extent2 picture, Extent2 size) {
  // If the picture is smaller, it is first padded: half of the difference before, and the odd one
  // after.
  const auto offset = [](int has, int wants) {
    return wants > has ? -((wants - has) / 2) : rounded((has - wants) / 2.0);
  };
  return {offset(picture.width, size.width), offset(picture.height, size.height), size.width,
          size.height};
}

Extent2 scaled_to_shorter(Extent2 picture, int shorter) {
  const bool upright = picture.width <= picture.height;
  const double small = upright ? picture.width : picture.height;
  const double large = upright ? picture.height : picture.width;
  const double longer =
      std::min(shorter * large / small, static_cast<double>(std::numeric_limits<int>::max()));
  const int other = static_cast<int>(longer);
  return upright ? Extent2{shorter, other} : Extent2{other, shorter};
}

}  // namespace batchflow::prepare
