// How the indices of one generation are cut: blocks of B samples, lanes of L blocks, and how large
// these are.
//
// Block b of lane v holds indices [bB, bB + B) of the lane; the last block of all may have fewer.
//
// A block is large enough to amortise the cost of a decision, and small enough that one worker
// prepares it in a second or so. A lane is short enough to stay in the window: a longer one would
// lose what sharing gains. So the sizes follow from the dataset and from the stream's window. They
// are fixed for a generation. Two jobs that restore the same generation number with different sizes
// are in different generations.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>

#include "core/base/types.h"

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

inline constexpr std::uint32_t kBlockSamplesMost = 4096;
inline constexpr std::uint32_t kLaneBlocksMost = 4096;
// The most lanes of a generation: a job that opens a lane looks at all lanes it has left. Larger
// datasets have longer lanes instead of more.
inline constexpr std::uint32_t kLanesMost = 4096;
constexpr std::uint64_t lane_blocks_most(std::uint64_t blocks) {
  return std::max<std::uint64_t>(kLaneBlocksMost, (blocks + kLanesMost - 1) / kLanesMost);
}

// Whether a dataset can be cut like this: the numbers of blocks and lanes do not overflow.
bool is_sane(const LaneSizes& sizes);

// Blocks smaller than this cost more than a small dataset gains by having more of them.
inline constexpr std::uint32_t kBlockSamplesLeast = 16;

// B: the power of two, in 1..4096, nearest to block bytes / mean bytes of a prepared sample. If two
// are equally near, the greater one.
std::uint32_t block_samples_for(Bytes prepared_bytes_mean, Bytes block_bytes);

// The same for a dataset of `samples` samples: B is halved until there are `blocks_least` blocks,
// or it would fall below kBlockSamplesLeast.
std::uint32_t block_samples_for(Bytes prepared_bytes_mean, Bytes block_bytes, std::uint64_t samples,
                                std::uint64_t blocks_least);

// L: from K blocks in a generation and the blocks that the stream's window holds.
std::uint32_t lane_blocks_for(std::uint64_t blocks, std::uint64_t window_blocks);

// The same where runs of 2^run_shift samples are shuffled, from what lane_blocks_for() gave. Runs
// are mixed within a lane, so it has at least kRunsLeast of them, if half the window holds so many.
// But it has at most half of the samples that are kept as they are stored: runs that leave before
// the lane is done would have to be read anew.
inline constexpr std::uint64_t kRunsLeast = 256;
std::uint32_t lane_blocks_of_runs(const LaneSizes& sizes, std::uint8_t run_shift,
                                  std::uint64_t window_blocks, std::uint64_t samples_kept);

}  // namespace batchflow::order
