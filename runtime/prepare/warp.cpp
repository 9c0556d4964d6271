#include "runtime/prepare/warp.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "runtime/prepare/geometry.h"

namespace batchflow::prepare {
namespace {

constexpr double kRadian = 3.14159265358979323846 / 180.0;

// A matrix holds sines and cosines to 15 digits, so that a quarter of a turn is one.
double to_15_digits(double x) {
  return std::nearbyint(x * 1e15) / 1e15;
}

std::uint8_t* pixel_of(PictureBuffer& out, int x, int y) {
  return out.row(y) + static_cast<std::size_t>(x) * kChannels;
}
const std::uint8_t* pixel_of(const PictureView& picture, int x, int y) {
  return picture.row(y) + static_cast<std::size_t>(x) * kChannels;
}
void put(std::uint8_t* to, const std::uint8_t* from) {
  to[0] = from[0];
  to[1] = from[1];
  to[2] = from[2];
}

bool is_inside(std::int64_t at, int size) {
  return at >= 0 && at < size;
}
// What is too far away for an int is outside, as what lies before the first pixel is.
int pixel_at(double position) {
  return position < 0.0 || position >= 0x1.0p30 ? -1 : static_cast<int>(position);
}

// The source's pixel is found with 16 bits behind the point, as Pillow does it.
void nearest_in_fixed_point(const Warp& warp, const PictureView& picture, PictureBuffer& out) {
  const WarpMatrix& m = warp.matrix;
  const auto fixed = [](double x) {
    return static_cast<std::int64_t>(std::floor(x * 65536.0 + 0.5));
  };
  const std::int64_t x_by_x = fixed(m[0]), x_by_y = fixed(m[1]), y_by_x = fixed(m[3]),
                     y_by_y = fixed(m[4]);
  std::int64_t first_x = fixed(m[2] + m[0] * 0.5 + m[1] * 0.5),
               first_y = fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);
  const Extent2 size = picture.extent;
  for (int y = 0; y < size.height; ++y, first_x += x_by_y, first_y += y_by_y) {
    std::int64_t at_x = first_x, at_y = first_y;
    std::uint8_t* to = out.row(y);
    for (int x = 0; x < size.width; ++x, at_x += x_by_x, at_y += y_by_x, to += kChannels) {
      const std::int64_t from_x = at_x >> 16, from_y = at_y >> 16;
      const bool inside = is_inside(from_x, size.width) && is_inside(from_y, size.height);
      put(to, inside ? pixel_of(picture, static_cast<int>(from_x), static_cast<int>(from_y))
                     : warp.style.fill.data());
    }
  }
}

// Of what is only scaled or shifted, and of pictures that are too large for fixed points.
void nearest_by_sums(const Warp& warp, const PictureView& picture, PictureBuffer& out) {
  const WarpMatrix& m = warp.matrix;
  const bool is_turned = m[1] != 0 || m[3] != 0;
  double first_x = is_turned ? m[2] + m[1] * 0.5 + m[0] * 0.5 : m[2] + m[0] * 0.5;
  double first_y = is_turned ? m[5] + m[4] * 0.5 + m[3] * 0.5 : m[5] + m[4] * 0.5;
  const Extent2 size = picture.extent;
  for (int y = 0; y < size.height; ++y, first_x += m[1], first_y += m[4]) {
    double at_x = first_x, at_y = first_y;
    for (int x = 0; x < size.width; ++x, at_x += m[0], at_y += m[3]) {
      const int from_x = pixel_at(at_x), from_y = pixel_at(at_y);
      const bool inside = is_inside(from_x, size.width) && is_inside(from_y, size.height);
      put(pixel_of(out, x, y), inside ? pixel_of(picture, from_x, from_y) : warp.style.fill.data());
    }
  }
}

bool fits_fixed_point(const WarpMatrix& m, Extent2 size) {
  for (const int x : {0, size.width})
    for (const int y : {0, size.height})
      if (!(std::fabs(x * m[0] + y * m[1] + m[2]) < 32768.0 &&
            std::fabs(x * m[3] + y * m[4] + m[5]) < 32768.0))
        return false;
  return true;
}

double between(double a, double b, double share) {
  return a + (b - a) * share;
}

// Digits behind the point are cut off, as in Pillow.
void bilinear_pixel(const PictureView& picture, double x, double y, const Colour& fill,
                    std::uint8_t* out) {
  const Extent2 size = picture.extent;
  if (!(x >= 0.0 && x < size.width && y >= 0.0 && y < size.height)) return put(out, fill.data());
  x -= 0.5;
  y -= 0.5;
  const auto floor_of = [](double at) { return at < 0 ? -1 : static_cast<int>(at); };  // from -1 on
  const int left = floor_of(x), top = floor_of(y);
  const double right_share = x - left, lower_share = y - top;
  const int first = std::max(left, 0), second = std::min(left + 1, size.width - 1);
  const std::uint8_t* const upper = picture.row(std::max(top, 0));
  const bool has_lower = top + 1 < size.height;
  const std::uint8_t* const lower = has_lower ? picture.row(top + 1) : upper;
  for (int c = 0; c < kChannels; ++c) {
    const auto along = [&](const std::uint8_t* row) {
      return between(row[first * kChannels + c], row[second * kChannels + c], right_share);
    };
    const double above = along(upper);
    out[c] =
        static_cast<std::uint8_t>(between(above, has_lower ? along(lower) : above, lower_share));
  }
}

// The curve through the middle two of four values, with the slopes between its neighbours.
double curve(double a, double b, double c, double d, double share) {
  const double square = 2 * (a - b) + c - d, cube = -a + b - c + d;
  return b + share * ((-a + c) + share * (square + share * cube));
}

// Digits behind the point are cut off, as in Pillow. Beyond the left and right edges are their
// pixels again; below the picture is what is above.
void bicubic_pixel(const PictureView& picture, double x, double y, const Colour& fill,
                   std::uint8_t* out) {
  const Extent2 size = picture.extent;
  if (!(x >= 0.0 && x < size.width && y >= 0.0 && y < size.height)) return put(out, fill.data());
  x -= 0.5;
  y -= 0.5;
  const int left = static_cast<int>(std::floor(x)), top = static_cast<int>(std::floor(y));
  const double right_share = x - left, lower_share = y - top;
  std::array<int, 4> columns;
  for (int i = 0; i < 4; ++i)
    columns[static_cast<std::size_t>(i)] = std::clamp(left - 1 + i, 0, size.width - 1) * kChannels;
  for (int c = 0; c < kChannels; ++c) {
    std::array<double, 4> rows;
    for (int i = 0; i < 4; ++i) {
      const int at = top - 1 + i;
      if (i > 0 && !is_inside(at, size.height)) {
        rows[static_cast<std::size_t>(i)] = rows[static_cast<std::size_t>(i) - 1];
        continue;
      }
      const std::uint8_t* const row = picture.row(std::clamp(at, 0, size.height - 1)) + c;
      rows[static_cast<std::size_t>(i)] =
          curve(row[columns[0]], row[columns[1]], row[columns[2]], row[columns[3]], right_share);
    }
    const double value = curve(rows[0], rows[1], rows[2], rows[3], lower_share);
    out[c] = static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0));
  }
}

using PixelOf = void (*)(const PictureView&, double, double, const Colour&, std::uint8_t*);
template <PixelOf pixel>
void each_pixel(const Warp& warp, const PictureView& picture, PictureBuffer& out) {
  const WarpMatrix& m = warp.matrix;
  for (int y = 0; y < picture.extent.height; ++y) {
    std::uint8_t* to = out.row(y);
    const double at_y = y + 0.5;
    for (int x = 0; x < picture.extent.width; ++x, to += kChannels) {
      const double at_x = x + 0.5;
      pixel(picture, m[0] * at_x + m[1] * at_y + m[2], m[3] * at_x + m[4] * at_y + m[5],
            warp.style.fill, to);
    }
  }
}

}  // namespace

WarpMatrix rotation(double degrees, Extent2 picture) {
  double turn = std::fmod(degrees, 360.0);
  if (turn < 0) turn += 360.0;
  const double angle = -(turn * kRadian);
  WarpMatrix m = {to_15_digits(cosine(angle)), to_15_digits(sine(angle)),   0.0,
                  to_15_digits(-sine(angle)),  to_15_digits(cosine(angle)), 0.0};
  const double x = picture.width / 2.0, y = picture.height / 2.0;
  m[2] = m[0] * -x + m[1] * -y + x;
  m[5] = m[3] * -x + m[4] * -y + y;
  return m;
}

WarpMatrix inverse_of(const Affine& affine, Extent2 picture) {
  const double turn = affine.degrees * kRadian, shear_x = affine.shear_x * kRadian,
               shear_y = affine.shear_y * kRadian;
  const double cosine_y = cosine(shear_y), tangent_x = sine(shear_x) / cosine(shear_x);
  const double a = cosine(turn - shear_y) / cosine_y;
  const double b = -cosine(turn - shear_y) * tangent_x / cosine_y - sine(turn);
  const double c = sine(turn - shear_y) / cosine_y;
  const double d = -sine(turn - shear_y) * tangent_x / cosine_y + cosine(turn);
  WarpMatrix m = {d, -b, 0.0, -c, a, 0.0};
  for (double& value : m) value /= affine.scale;
  const double x = picture.width * 0.5, y = picture.height * 0.5;
  m[2] += m[0] * (-x - affine.shift_x) + m[1] * (-y - affine.shift_y);
  m[5] += m[3] * (-x - affine.shift_x) + m[4] * (-y - affine.shift_y);
  m[2] += x;
  m[5] += y;
  return m;
}

void warp(const Warp& warp, const PictureView& picture, PictureBuffer& out) {
  out.reset(picture.extent);
  if (warp.style.filter == Filter::bilinear) return each_pixel<bilinear_pixel>(warp, picture, out);
  if (warp.style.filter == Filter::bicubic) return each_pixel<bicubic_pixel>(warp, picture, out);
  const bool is_turned = warp.matrix[1] != 0 || warp.matrix[3] != 0;
  if (is_turned && fits_fixed_point(warp.matrix, picture.extent))
    return nearest_in_fixed_point(warp, picture, out);
  nearest_by_sums(warp, picture, out);
}

}  // namespace batchflow::prepare
