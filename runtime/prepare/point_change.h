// Changes that give each pixel a new colour by its old one and by how often each value occurs, as
// Pillow's ImageOps make them.
#pragma once

#include <cstdint>

#include "runtime/prepare/picture.h"

namespace batchflow::prepare {

struct PointChange {
  enum class Kind : std::uint8_t {
    greyscale,
    invert,
    posterize,     // keeps the upper `amount` bits
    solarize,      // inverts values from `amount` on
    autocontrast,  // stretches each channel to 0..255
    equalize       // gives each channel values that are about equally frequent
  };
  Kind kind = Kind::greyscale;
  double amount = 0;
};

void apply(const PointChange& change, PictureBuffer& picture);

}  // namespace batchflow::prepare
