// Changes of colour, as torchvision's ColorJitter makes them on Pillow's pictures: what becomes of
// one pixel. Both the CPU's and the GPU's preparation use these.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/picture.h"

namespace batchflow::kernels {

enum class ColourChange : std::uint8_t { brightness, contrast, saturation, hue };
inline constexpr std::size_t kColourChanges = 4;

// The changes of one picture: all four, in this order. A factor of 1, and 0 for the hue, changes
// nothing.
struct Jitter {
  ColourChange order[kColourChanges] = {ColourChange::brightness, ColourChange::contrast,
                                        ColourChange::saturation, ColourChange::hue};
  float factor[kColourChanges] = {1, 1, 1, 0};  // by change

  BF_ANYWHERE float factor_of(ColourChange change) const {
    return factor[static_cast<std::size_t>(change)];
  }
};

// A value between a and b, or beyond b for factors above 1. Digits after the point are cut off.
BF_ANYWHERE inline std::uint8_t blend(int a, int b, float factor) {
  const float value = static_cast<float>(a) + factor * static_cast<float>(b - a);
  return static_cast<std::uint8_t>(value < 0.0f ? 0.0f : value > 255.0f ? 255.0f : value);
}

// ITU-R 601-2, in 16-bit fixed point.
BF_ANYWHERE inline int grey_of(const std::uint8_t* rgb) {
  return (rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16;
}
// The mean, rounded, of the greys of so many pixels.
BF_ANYWHERE inline int mean_grey(std::uint64_t sum, std::uint64_t pixels) {
  return static_cast<int>((2 * sum + pixels) / (2 * pixels));
}

// In Pillow's HSV all three have eight bits.
struct Hsv {
  std::uint8_t hue, saturation, value;
};

BF_ANYWHERE inline std::uint8_t clamped(int value) {
  return static_cast<std::uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
}

BF_ANYWHERE inline Hsv to_hsv(const std::uint8_t* rgb) {
  std::uint8_t least = rgb[0], most = rgb[0];
  for (int c = 1; c < kChannels; ++c) {
    least = rgb[c] < least ? rgb[c] : least;
    most = rgb[c] > most ? rgb[c] : most;
  }
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
  return {clamped(static_cast<int>(hue * 255.0)), clamped(static_cast<int>(saturation * 255.0)),
          most};
}

BF_ANYWHERE inline void to_rgb(const Hsv& hsv, std::uint8_t* rgb) {
  const std::uint8_t v = hsv.value;
  if (hsv.saturation == 0) {
    for (int c = 0; c < kChannels; ++c) rgb[c] = v;
    return;
  }
  const float sixths = static_cast<float>(hsv.hue) * 6.0f / 255.0f;
  const auto sector = static_cast<int>(sixths);
  const float rest = sixths - static_cast<float>(sector);
  const float saturation = static_cast<float>(hsv.saturation) / 255.0f;
  const auto part = [&](float share) {
    return clamped(static_cast<int>(roundf(static_cast<float>(v) * (1.0f - saturation * share))));
  };
  const std::uint8_t p = part(1.0f), q = part(rest), t = part(1.0f - rest);
  const int at = sector % 6;
  rgb[0] = at == 1 ? q : at == 2 || at == 3 ? p : at == 4 ? t : v;
  rgb[1] = at == 0 ? t : at == 1 || at == 2 ? v : at == 3 ? q : p;
  rgb[2] = at == 2 ? t : at == 3 || at == 4 ? v : at == 5 ? q : p;
}

// What the factor of a hue adds to an Hsv's.
BF_ANYWHERE inline std::uint8_t hue_shift(float factor) {
  return static_cast<std::uint8_t>(static_cast<int>(factor * 255.0f));
}
BF_ANYWHERE inline bool changes_nothing(ColourChange change, float factor) {
  return change == ColourChange::hue ? hue_shift(factor) == 0 : factor == 1;
}

// `mean` is the mean grey of the picture as it is before this change.
BF_ANYWHERE inline void change_pixel(ColourChange change, float factor, int mean,
                                     std::uint8_t* rgb) {
  if (change == ColourChange::hue) {
    Hsv hsv = to_hsv(rgb);
    hsv.hue = static_cast<std::uint8_t>(hsv.hue + hue_shift(factor));
    return to_rgb(hsv, rgb);
  }
  const int with = change == ColourChange::brightness ? 0
                   : change == ColourChange::contrast ? mean
                                                      : grey_of(rgb);
  for (int c = 0; c < kChannels; ++c) rgb[c] = blend(with, rgb[c], factor);
}

BF_ANYWHERE inline bool changes_nothing(const Jitter& jitter) {
  for (std::size_t i = 0; i < kColourChanges; ++i)
    if (!changes_nothing(static_cast<ColourChange>(i), jitter.factor[i])) return false;
  return true;
}

}  // namespace batchflow::kernels
