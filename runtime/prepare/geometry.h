// Which part of a picture a step takes, chosen as torchvision's transforms choose it.
//
// The choice is the same on every machine: square roots are exact everywhere, and other functions
// are computed here, by additions and multiplications alone.
#pragma once

#include "core/base/random.h"
#include "runtime/prepare/picture.h"

namespace batchflow::prepare {

struct Range {
  double least = 0;
  double most = 0;
  double draw(Random& random) const { return least + random.unit() * (most - least); }
  friend bool operator==(const Range&, const Range&) = default;
};

double exponential(double x);
double logarithm(double x);  // REQUIRES: x > 0
double sine(double x);       // REQUIRES: x is no more than some thousands, and not below minus that
double cosine(double x);     // the same
// Rounds to the nearest, halves to the even one, like Python's round. What is too large becomes the
// greatest int.
int rounded(double x);

// The choice of RandomResizedCrop: a part with a random share of the area and a random ratio of
// width to height. After ten tries it is the largest part in the middle with a ratio in the range.
Box random_crop(Extent2 picture, const Range& area, const Range& ratio, Random& random);

// The choice of RandomErasing: as above, but the ratio is of height to width, and the part is
// smaller than the picture. After ten tries there is none: its width is 0.
Box random_part(Extent2 picture, const Range& area, const Range& ratio, Random& random);

// The choice of RandomCrop. REQUIRES: the picture is no smaller than `size`
Box random_window(Extent2 picture, Extent2 size, Random& random);

// The choice of CenterCrop. It may reach beyond the picture on all sides, if the picture is
// smaller.
Box centre_box(Extent2 picture, Extent2 size);

// The size of Resize with one number: the shorter side becomes `shorter`, the ratio stays.
Extent2 scaled_to_shorter(Extent2 picture, int shorter);

}  // namespace batchflow::prepare
