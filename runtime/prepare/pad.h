// What stands around a picture that is padded, as torchvision's Pad has it on Pillow's pictures.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/prepare/picture.h"

namespace batchflow::prepare {

using Colour = std::array<std::uint8_t, kChannels>;

// `constant`: a colour. `edge`: the pixel at the edge again. `reflect`: the picture mirrored,
// without its edge; `symmetric`: with it.
enum class PadMode : std::uint8_t { constant, reflect, edge, symmetric };

struct PadStyle {
  PadMode mode = PadMode::constant;
  Colour fill{};
};

struct Padding {
  int left = 0, top = 0, right = 0, bottom = 0;
};

// The part `box` of a picture, which may reach beyond it on all sides.
struct Pad {
  Box box;
  PadStyle style;
};

Box padded(Extent2 picture, const Padding& padding);
void pad(const Pad& pad, const PictureView& picture, PictureBuffer& out);

// Which of `size` pixels stands at `at`, which may lie outside them.
// REQUIRES: size > 0; mode is not `constant`
int source_of(int at, int size, PadMode mode);

}  // namespace batchflow::prepare
