// Turns, shears, shifts and scales a picture in its place, exactly as Pillow's transform (and so
// torchvision's affine and rotate on pictures) does.
#pragma once

#include <array>

#include "runtime/prepare/pad.h"
#include "runtime/prepare/picture.h"

namespace batchflow::prepare {

// From the middle of a pixel of the result to its position in the source: x = m0 x + m1 y + m2,
// y = m3 x + m4 y + m5.
using WarpMatrix = std::array<double, 6>;

struct WarpStyle {
  Filter filter = Filter::nearest;  // or bilinear, bicubic
  Colour fill{};                    // of what lies outside the source
};

struct Warp {
  WarpMatrix matrix;
  WarpStyle style;
};

// A turn around the middle, against the clock.
WarpMatrix rotation(double degrees, Extent2 picture);

// Around the middle: sheared, then turned with the clock, scaled and shifted by so many pixels.
struct Affine {
  double degrees = 0;
  double shift_x = 0, shift_y = 0;
  double scale = 1;
  double shear_x = 0, shear_y = 0;  // degrees
};
WarpMatrix inverse_of(const Affine& affine, Extent2 picture);

void warp(const Warp& warp, const PictureView& picture, PictureBuffer& out);

}  // namespace batchflow::prepare
