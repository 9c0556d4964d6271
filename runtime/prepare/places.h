// Boxes and key points go where the pixels of their picture go.
//
// Coordinates are numbers of f32, and are reckoned as torchvision's transforms (v2) reckon them on
// boxes and key points, so that they come out equal.
#pragma once

#include <span>

#include "runtime/prepare/operations.h"

namespace batchflow::prepare {

// Boxes of [left, upper, right, lower] in a picture of size `picture`. They are clipped to it, at
// first and after each operation. A turned box becomes the upright box around its corners.
void move_boxes(std::span<const Operation> operations, Extent2 picture, std::span<float> boxes);

// Points: each begins with x and y, and has `each` numbers; the others stay as they are. A point
// names the middle of a pixel, so that a mirrored x is width - 1 - x. None is clipped.
void move_points(std::span<const Operation> operations, Extent2 picture, std::size_t each,
                 std::span<float> points);

}  // namespace batchflow::prepare
