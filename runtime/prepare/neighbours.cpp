#include "runtime/prepare/neighbours.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>

#include "kernels/colour.h"
#include "runtime/prepare/geometry.h"
#include "runtime/prepare/pad.h"

namespace batchflow::prepare {
namespace {

// ------------------------------------------------------------------------------ sharpening ----

// The mean of nine values, of which the middle one counts five times, rounded.
int smoothed(const std::uint8_t* above, const std::uint8_t* at, const std::uint8_t* below) {
  constexpr int left = -kChannels, right = kChannels;
  const int sum = above[left] + above[0] + above[right] + at[left] + 5 * at[0] + at[right] +
                  below[left] + below[0] + below[right];
  return (2 * sum + 13) / 26;
}

void sharpen_row(float factor, const PictureView& picture, int y, std::uint8_t* out) {
  const std::uint8_t* const at = picture.row(y);
  const std::size_t bytes = static_cast<std::size_t>(picture.extent.width) * kChannels;
  std::memcpy(out, at, bytes);
  if (y == 0 || y + 1 == picture.extent.height) return;
  const std::uint8_t *const above = picture.row(y - 1), *const below = picture.row(y + 1);
  for (std::size_t i = kChannels; i + kChannels < bytes; ++i)
    out[i] = kernels::blend(smoothed(above + i, at + i, below + i), at[i], factor);
}

// -------------------------------------------------------------------------------- blurring ----

using Weights = std::array<float, 2 * kReachMost + 1>;

std::span<const float> gauss(int reach, double sigma, Weights& weights) {
  const auto count = static_cast<std::size_t>(2 * reach + 1);
  float sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double distance = (static_cast<int>(i) - reach) / sigma;
    // Below, e^x is 0 in a float, and its series would be none.
    const double exponent = -0.5 * distance * distance;
    weights[i] = exponent < -87 ? 0.0f : static_cast<float>(exponential(exponent));
    sum += weights[i];
  }
  for (std::size_t i = 0; i < count; ++i) weights[i] /= sum;
  return {weights.data(), count};
}

void add_weighted(const float* values, float weight, std::size_t count, float* __restrict sums) {
  for (std::size_t i = 0; i < count; ++i) sums[i] += values[i] * weight;
}

// Numbers from 0 to 255.4 become the nearest byte, halves the even one: in a float of this size the
// last bit counts whole numbers.
void round_row(const float* values, std::size_t count, std::uint8_t* out) {
  for (std::size_t i = 0; i < count; ++i)
    out[i] = static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(values[i] + 0x1.0p23f));
}

struct BlurLines {
  std::size_t row, wide, ring;  // numbers of a row, of one with what stands around it, of rows kept
  BlurLines(const Blur& blur, Extent2 picture)
      : row(static_cast<std::size_t>(picture.width) * kChannels),
        wide(row + 2 * kChannels * static_cast<std::size_t>(blur.reach.width)),
        ring(static_cast<std::size_t>(2 * blur.reach.height + 1)) {}
  Bytes bytes() const { return (wide + row + ring * row) * sizeof(float); }
};

}  // namespace

void sharpen(const Sharpening& sharpening, const PictureView& picture, PictureBuffer& out) {
  out.reset(picture.extent);
  for (int y = 0; y < picture.extent.height; ++y)
    sharpen_row(sharpening.factor, picture, y, out.row(y));
}

Bytes Blurrer::needs(const Blur& blur, Extent2 picture) {
  return BlurLines(blur, picture).bytes();
}

void Blurrer::run(const Blur& blur, const PictureView& picture, PictureBuffer& out) {
  const BlurLines lines(blur, picture.extent);
  auto* const wide = reinterpret_cast<float*>(memory_.have(lines.bytes()));
  float* const sums = wide + lines.wide;
  float* const ring = sums + lines.row;
  Weights of_across, of_down;
  const std::span<const float> across = gauss(blur.reach.width, blur.sigma, of_across);
  const std::span<const float> down = gauss(blur.reach.height, blur.sigma, of_down);
  const int width = picture.extent.width, height = picture.extent.height;
  const auto kept = [&](int y) {
    return ring + static_cast<std::size_t>(y) % lines.ring * lines.row;
  };
  const auto blur_across = [&](int y) {
    const std::uint8_t* const row = picture.row(y);
    float* to = wide;
    for (int x = -blur.reach.width; x < width + blur.reach.width; ++x) {
      const std::uint8_t* const from = row + source_of(x, width, PadMode::reflect) * kChannels;
      for (int c = 0; c < kChannels; ++c) *to++ = from[c];
    }
    float* const made = kept(y);
    std::fill_n(made, lines.row, 0.0f);
    for (std::size_t k = 0; k < across.size(); ++k)
      add_weighted(wide + k * kChannels, across[k], lines.row, made);
  };
  out.reset(picture.extent);
  int made = 0;
  for (int y = 0; y < height; ++y) {
    for (; made < std::min(height, y + blur.reach.height + 1); ++made) blur_across(made);
    std::fill_n(sums, lines.row, 0.0f);
    for (std::size_t k = 0; k < down.size(); ++k) {
      const int at = y + static_cast<int>(k) - blur.reach.height;
      add_weighted(kept(source_of(at, height, PadMode::reflect)), down[k], lines.row, sums);
    }
    round_row(sums, lines.row, out.row(y));
  }
}

}  // namespace batchflow::prepare
