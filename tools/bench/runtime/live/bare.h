// What the least work on pictures costs, without a service: to read the codes of each and to scale
// a random crop of it. No loader that decodes pictures anew can do less.
#pragma once

#include <vector>

#include "tests/runtime/prepare/pictures.h"

namespace batchflow::bench {

// Microseconds of CPU time a picture, on one thread.
struct BareCost {
  double codes = 0;   // to read the codes of the whole, and make pixels of a corner
  double decode = 0;  // to read them, and make the pixels of a random crop
  double scale = 0;   // to scale the crop to 224 x 224, flipped half of the time
};

// All pictures once, in each of the three.
BareCost bare_cost(const std::vector<test::Encoded>& pictures);

}  // namespace batchflow::bench
