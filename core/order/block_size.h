// How large blocks and lanes are. Their sizes follow from the dataset and from the stream's window.
//
// A block is large enough to amortise the cost of a decision, and small enough that one worker
// prepares it in a second or so. A lane is short enough to stay in the window: a longer one would
// lose what sharing gains. Both sizes are fixed for a generation.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/types.h"

namespace batchflow::order {

inline constexpr std::uint32_t kBlockSamplesMost = 4096;
inline constexpr std::uint32_t kLaneBlocksMost = 4096;
// The most lanes of a generation: a job that opens a lane looks at all lanes it has left. Larger
// datasets have longer lanes instead of more.
inline constexpr std::uint32_t kLanesMost = 4096;
constexpr std::uint64_t lane_blocks_most(std::uint64_t blocks) {
  return std::max<std::uint64_t>(kLaneBlocksMost, (blocks + kLanesMost - 1) / kLanesMost);
}

// Blocks smaller than this cost more than a small dataset gains by having more of them.
inline constexpr std::uint32_t kBlockSamplesLeast = 16;

inline constexpr Bytes kBlockBytes = Bytes{32} << 20;

// B: the power of two, in 1..4096, nearest to block bytes / mean bytes of a prepared sample. Of two
// that are as near it is the greater one.
std::uint32_t block_samples_for(Bytes prepared_bytes_mean, Bytes block_bytes = kBlockBytes);

// The same for a dataset of `samples` samples: B is halved until there are `blocks_least` blocks,
// or it would fall below kBlockSamplesLeast.
std::uint32_t block_samples_for(Bytes prepared_bytes_mean, Bytes block_bytes, std::uint64_t samples,
                                std::uint64_t blocks_least);

// L: from K blocks in a generation and the blocks that the stream's window holds.
std::uint32_t lane_blocks_for(std::uint64_t blocks, std::uint64_t window_blocks);

}  // namespace batchflow::order
