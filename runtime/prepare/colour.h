// Changes of colour, as torchvision's ColorJitter makes them on Pillow's pictures.
#pragma once

#include <array>
#include <cstdint>

#include "core/base/random.h"
#include "kernels/colour.h"
#include "runtime/prepare/geometry.h"
#include "runtime/prepare/picture.h"

namespace batchflow::prepare {

using kernels::ColourChange;
using kernels::Jitter;
using kernels::kColourChanges;

// The changes of one picture. All four are drawn, in a random order.
// `ranges` is by change. The number of draws is always the same: three for the order, then four.
Jitter draw_jitter(const std::array<Range, kColourChanges>& ranges, Random& random);

void apply(ColourChange change, float factor, PictureBuffer& picture);

}  // namespace batchflow::prepare
