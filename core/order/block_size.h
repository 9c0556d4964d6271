// How large blocks and lanes are, from what is known of a dataset and of the stream's window.
//
// A block is as large as amortises the cost of a decision and small enough to be prepared by one
// worker in a second or so; a lane is short enough to stay in the window, for a lane longer than
// that loses what sharing gains. Both are fixed for a generation.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/types.h"

namespace batchflow::order {

inline constexpr std::uint32_t kBlockSamplesMost = 4096;
inline constexpr std::uint32_t kLaneBlocksMost = 4096;
// A job that opens a lane looks at all that it has left, so there are never more; the lanes of
// larger data sets are longer.
inline constexpr std::uint32_t kLanesMost = 4096;
constexpr std::uint64_t lane_blocks_most(std::uint64_t blocks) {
  return std::max<std::uint64_t>(kLaneBlocksMost, (blocks + kLanesMost - 1) / kLanesMost);
}

// Smaller ones, for a dataset that would have few, cost more than they gain.
inline constexpr std::uint32_t kBlockSamplesLeast = 16;

inline constexpr Bytes kBlockBytes = Bytes{32} << 20;

// B: the power of two nearest to block bytes / mean bytes of a prepared sample, in 1..4096; the
// greater one if two are as near.
std::uint32_t block_samples_for(Bytes prepared_bytes_mean, Bytes block_bytes = kBlockBytes);

// The same for a dataset of `samples`: halved until they are `blocks_least` blocks, or
// kBlockSamplesLeast each.
std::uint32_t block_samples_for(Bytes prepared_bytes_mean, Bytes block_bytes, std::uint64_t samples,
                                std::uint64_t blocks_least);

// L: from K blocks in a generation and the blocks that the stream's window holds.
std::uint32_t lane_blocks_for(std::uint64_t blocks, std::uint64_t window_blocks);

}  // namespace batchflow::order
