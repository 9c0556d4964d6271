// Which part of a picture a step takes, as torchvision's transforms choose it.
//
// The same on every machine: square roots are exact everywhere, and the exponential is reckoned
// here, by additions and multiplications alone.
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

// Of RandomResizedCrop: a part of a random share of the area, and of a random ratio of width to
// height; ten tries, then the largest one in the middle whose ratio is in the range.
Box random_crop(Extent2 picture, const Range& area, const Range& ratio, Random& random);

// Of CenterCrop. It may reach beyond the picture on all sides, where that is smaller.
Box centre_box(Extent2 picture, Extent2 size);

// Of Resize with one number: the shorter side becomes `shorter`, the ratio stays.
Extent2 scaled_to_shorter(Extent2 picture, int shorter);

}  // namespace batchflow::prepare
