// RandomErasing of torchvision: a random part of the finished picture becomes something else.
//
// It works on the numbers of the batch, after they are normalised: there a value of 0 is the mean
// colour, and random values are as spread as those of pictures are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/batch/batch_spec.h"
#include "runtime/prepare/geometry.h"

namespace batchflow::prepare {

struct RandomErasing {
  enum class With : std::uint8_t {
    values,
    random,        // each number is drawn from the normal distribution
    random_colour  // one colour is drawn for the whole part
  };
  double probability = 0;
  Range area;
  Range ratio;
  With with = With::values;
  std::array<float, kChannels> values{};
};

// REQUIRES: Finish::supports(type)
void erase(const RandomErasing& step, Random& random, Extent2 picture, batch::ElementType type,
           bool planes, std::byte* out);

}  // namespace batchflow::prepare
