#include "runtime/prepare/colour.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace batchflow::prepare {
namespace {

// A value between a and b, or beyond b for factors above 1. Digits after the point are cut off.
std::uint8_t blend(int a, int b, float factor) {
  const float value = static_cast<float>(a) + factor * static_cast<float>(b - a);
  return static_cast<std::uint8_t>(std::clamp(value, 0.0f, 255.0f));
}

// ITU-R 601-2, in 16-bit fixed point.
int grey_of(const std::uint8_t* rgb) {
  return (rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16;
}

template <class Change>
void each_pixel(PictureBuffer& picture, Change&& change) {
  const Extent2 extent = picture.extent();
  const auto pixels =
      static_cast<std::size_t>(extent.width) * static_cast<std::size_t>(extent.height);
  std::uint8_t* at = picture.pixels();
  for (std::size_t i = 0; i < pixels; ++i, at += kChannels) change(at);
}

// In Pillow's HSV all three have eight bits.
struct Hsv {
  std::uint8_t hue, saturation, value;
};

Hsv to_hsv(const std::uint8_t* rgb) {
  const auto [least, most] = std::minmax({rgb[0], rgb[1], rgb[2]});
  if (least == most) return {0, 0, most};
  const auto range = static_cast<float>(most - least);
  const float red = static_cast<float>(most - rgb[0]) / range;
  const float green = static_cast<float>(most - rgb[1]) / range;
  const float blue = static_cast<float>(most - rgb[2]) / range;
  // Rounded to a float once, after the sum.
  const auto sixths = static_cast<float>(rgb[0] == most   ? static_cast<double>(blue - green)
                                         : rgb[1] == most ? 2.0 + red - blue
                                                          : 4.0 + green - red);
  const double turn = sixths / 6.0 + 1.0;
  const auto hue = static_cast<float>(turn >= 1.0 ? turn - 1.0 : turn);
  const float saturation = range / static_cast<float>(most);
  return {static_cast<std::uint8_t>(std::clamp(static_cast<int>(hue * 255.0), 0, 255)),
          static_cast<std::uint8_t>(std::clamp(static_cast<int>(saturation * 255.0), 0, 255)),
          most};
}

void to_rgb(const Hsv& hsv, std::uint8_t* rgb) {
  const std::uint8_t v = hsv.value;
  if (hsv.saturation == 0) {
    std::fill_n(rgb, kChannels, v);
    return;
  }
  const float sixths = static_cast<float>(hsv.hue) * 6.0f / 255.0f;
  const auto sector = static_cast<int>(sixths);
  const float rest = sixths - static_cast<float>(sector);
  const float saturation = static_cast<float>(hsv.saturation) / 255.0f;
  const auto part = [&](float share) {
    const float value = std::round(static_cast<float>(v) * (1.0f - saturation * share));
    return static_cast<std::uint8_t>(std::clamp(static_cast<int>(value), 0, 255));
  };
  const std::uint8_t p = part(1.0f), q = part(rest), t = part(1.0f - rest);
  const std::uint8_t sectors[6][3] = {{v, t, p}, {q, v, p}, {p, v, t},
                                      {p, q, v}, {t, p, v}, {v, p, q}};
  std::copy_n(sectors[sector % 6], kChannels, rgb);
}

void blend_with(PictureBuffer& picture, int with, float factor) {
  // 256 values: cheaper than a product for each.
  std::array<std::uint8_t, 256> table;
  for (int value = 0; value < 256; ++value)
    table[static_cast<std::size_t>(value)] = blend(with, value, factor);
  each_pixel(picture, [&](std::uint8_t* rgb) {
    for (int c = 0; c < kChannels; ++c) rgb[c] = table[rgb[c]];
  });
}

int mean_grey(PictureBuffer& picture) {
  std::uint64_t sum = 0;
  std::uint64_t pixels = 0;
  each_pixel(picture, [&](const std::uint8_t* rgb) {
    sum += static_cast<std::uint64_t>(grey_of(rgb));
    ++pixels;
  });
  return static_cast<int>((2 * sum + pixels) / (2 * pixels));
}

}  // namespace

Jitter draw_jitter(const std::array<Range, kColourChanges>& ranges, Random& random) {
  Jitter jitter{{ColourChange::brightness, ColourChange::contrast, ColourChange::saturation,
                 ColourChange::hue},
                {}};
  shuffle(std::span<ColourChange>(jitter.order), random);
  for (std::size_t i = 0; i < kColourChanges; ++i)
    jitter.factor[i] = static_cast<float>(ranges[i].draw(random));
  return jitter;
}

void apply(ColourChange change, float factor, PictureBuffer& picture) {
  switch (change) {
    case ColourChange::brightness:
      if (factor != 1) blend_with(picture, 0, factor);
      return;
    case ColourChange::contrast:
      if (factor != 1) blend_with(picture, mean_grey(picture), factor);
      return;
    case ColourChange::saturation:
      if (factor == 1) return;
      each_pixel(picture, [&](std::uint8_t* rgb) {
        const int grey = grey_of(rgb);
        for (int c = 0; c < kChannels; ++c) rgb[c] = blend(grey, rgb[c], factor);
      });
      return;
    case ColourChange::hue: {
      const auto shift = static_cast<std::uint8_t>(static_cast<int>(factor * 255.0f));
      if (shift == 0) return;
      each_pixel(picture, [&](std::uint8_t* rgb) {
        Hsv hsv = to_hsv(rgb);
        hsv.hue = static_cast<std::uint8_t>(hsv.hue + shift);
        to_rgb(hsv, rgb);
      });
      return;
    }
  }
}

}  // namespace batchflow::prepare
