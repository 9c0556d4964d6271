#include "runtime/prepare/colour.h"

#include <span>
#include <type_traits>

namespace batchflow::prepare {
namespace {

template <class Change>
void each_pixel(PictureBuffer& picture, Change&& change) {
  const Extent2 extent = picture.extent();
  const auto pixels =
      static_cast<std::size_t>(extent.width) * static_cast<std::size_t>(extent.height);
  std::uint8_t* at = picture.pixels();
  for (std::size_t i = 0; i < pixels; ++i, at += kChannels) change(at);
}

void blend_with(PictureBuffer& picture, int with, float factor) {
  // 256 values: cheaper than a product for each.
  std::array<std::uint8_t, 256> table;
  for (int value = 0; value < 256; ++value)
    table[static_cast<std::size_t>(value)] = kernels::blend(with, value, factor);
  each_pixel(picture, [&](std::uint8_t* rgb) {
    for (int c = 0; c < kChannels; ++c) rgb[c] = table[rgb[c]];
  });
}

int mean_grey(PictureBuffer& picture) {
  std::uint64_t sum = 0;
  std::uint64_t pixels = 0;
  each_pixel(picture, [&](const std::uint8_t* rgb) {
    sum += static_cast<std::uint64_t>(kernels::grey_of(rgb));
    ++pixels;
  });
  return kernels::mean_grey(sum, pixels);
}

}  // namespace

Jitter draw_jitter(const std::array<Range, kColourChanges>& ranges, Random& random) {
  Jitter jitter;
  shuffle(std::span<ColourChange>(jitter.order), random);
  for (std::size_t i = 0; i < kColourChanges; ++i)
    jitter.factor[i] = static_cast<float>(ranges[i].draw(random));
  return jitter;
}

void apply(ColourChange change, float factor, PictureBuffer& picture) {
  if (kernels::changes_nothing(change, factor)) return;
  if (change == ColourChange::brightness) return blend_with(picture, 0, factor);
  if (change == ColourChange::contrast) return blend_with(picture, mean_grey(picture), factor);
  // A loop for each, so that no pixel asks which change it is.
  const auto change_each = [&](auto constant) {
    each_pixel(picture, [&](std::uint8_t* rgb) {
      kernels::change_pixel(decltype(constant)::value, factor, 0, rgb);
    });
  };
  if (change == ColourChange::saturation)
    change_each(std::integral_constant<ColourChange, ColourChange::saturation>());
  else
    change_each(std::integral_constant<ColourChange, ColourChange::hue>());
}

}  // namespace batchflow::prepare
