// Lanes in sizes that can be checked by hand.
#pragma once

#include <cstdint>

#include "core/order/lanes.h"

namespace batchflow::test {

// One sample a block; `lanes` lanes of `lane_blocks` blocks.
inline order::Lanes::Options options_of(std::uint32_t lanes, std::uint32_t lane_blocks) {
  order::Lanes::Options options;
  options.sizes = {std::uint64_t{lanes} * lane_blocks, 1, lane_blocks};
  return options;
}

}  // namespace batchflow::test
