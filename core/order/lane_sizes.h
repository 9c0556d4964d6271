// How the indices of one generation are cut: blocks of B samples, lanes of L blocks.
//
// Block b of lane v holds indices [bB, bB + B) of the lane; the last block of all may have fewer.
// The sizes are fixed for a generation. Two jobs that restore the same generation number with
// different sizes are in different generations.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>

namespace batchflow::order {

constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

struct LaneSizes {
  std::uint64_t samples = 0;        // N
  std::uint32_t block_samples = 1;  // B
  std::uint32_t lane_blocks = 1;    // L
  friend constexpr auto operator<=>(const LaneSizes&, const LaneSizes&) = default;

  constexpr std::uint64_t blocks() const { return divide_up(samples, block_samples); }  // K
  constexpr std::uint32_t lanes() const {                                               // V
    return static_cast<std::uint32_t>(divide_up(blocks(), lane_blocks));
  }
  constexpr std::uint32_t blocks_of(std::uint32_t lane) const {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(lane_blocks, blocks() - first_block_of(lane)));
  }
  constexpr std::uint32_t samples_of(std::uint32_t lane, std::uint32_t block) const {
    const std::uint64_t first = (first_block_of(lane) + block) * block_samples;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(block_samples, samples - first));
  }
  // The samples of all blocks of the lane. REQUIRES: there is such a lane
  constexpr std::uint64_t samples_of(std::uint32_t lane) const {
    const std::uint64_t whole = std::uint64_t{lane_blocks} * block_samples;
    return std::min(whole, samples - lane * whole);
  }
  constexpr std::uint64_t first_block_of(std::uint32_t lane) const {
    return std::uint64_t{lane} * lane_blocks;
  }
};

}  // namespace batchflow::order
