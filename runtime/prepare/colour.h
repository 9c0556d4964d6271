// Changes of colour, as torchvision's ColorJitter makes them on Pillow's pictures.
#pragma once

#include <array>
#include <cstdint>

#include "core/base/random.h"
#include "runtime/prepare/geometry.h"
#include "runtime/prepare/picture.h"

namespace batchflow::prepare {

enum class ColourChange : std::uint8_t { brightness, contrast, saturation, hue };
inline constexpr std::size_t kColourChanges = 4;

// The changes of one picture: all four, in a random order. A factor of 1, and 0 for the hue,
// changes nothing.
struct Jitter {
  std::array<ColourChange, kColourChanges> order;
  std::array<float, kColourChanges> factor;  // by change
};
// `ranges` is by change. The number of draws is always the same: three for the order, then four.
Jitter draw_jitter(const std::array<Range, kColourChanges>& ranges, Random& random);

void apply(ColourChange change, float factor, PictureBuffer& picture);

}  // namespace batchflow::prepare
