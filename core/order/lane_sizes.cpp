#include "core/order/lane_sizes.h"

#include <algorithm>

#include "core/order/permutation.h"

namespace batchflow::order {

std::uint32_t block_samples_for(Bytes prepared_bytes_mean, Bytes block_bytes) {
  // Twice the size is nearer from 1.5 sizes on: block / mean >= 1.5 * size, without a division.
  const Bytes block = std::min(block_bytes, UINT64_MAX / 2);
  const Bytes mean = std::min(std::max<Bytes>(prepared_bytes_mean, 1), 2 * (block / 2 + 1));
  std::uint32_t size = 1;
  while (size < kBlockSamplesMost && static_cast<unsigned __int128>(3) * size * mean <=
                                         static_cast<unsigned __int128>(2) * block) {
    size *= 2;
  }
  return size;
}

std::uint32_t block_samples_for(Bytes prepared_bytes_mean, Bytes block_bytes, std::uint64_t samples,
                                std::uint64_t blocks_least) {
  std::uint32_t size = block_samples_for(prepared_bytes_mean, block_bytes);
  while (size > kBlockSamplesLeast && divide_up(samples, size) < blocks_least) size /= 2;
  return size;
}

std::uint32_t lane_blocks_for(std::uint64_t blocks, std::uint64_t window_blocks) {
  const std::uint64_t at_least_128_lanes = divide_up(blocks, 128);
  const std::uint64_t in_half_window = std::min(divide_up(blocks, 32), window_blocks / 2);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(
      lane_blocks_most(blocks), std::max<std::uint64_t>({1, at_least_128_lanes, in_half_window})));
}

std::uint32_t lane_blocks_of_runs(const LaneSizes& sizes, std::uint8_t run_shift,
                                  std::uint64_t window_blocks, std::uint64_t samples_kept) {
  const std::uint64_t mixed = divide_up(kRunsLeast << run_shift, sizes.block_samples);
  const std::uint64_t in_half_window = std::min(mixed, window_blocks / 2);
  const std::uint64_t in_half_kept = samples_kept / 2 / sizes.block_samples;
  const std::uint64_t wanted = std::max<std::uint64_t>(sizes.lane_blocks, in_half_window);
  // However little is kept: no position holds more lanes.
  const std::uint64_t least = std::max<std::uint64_t>(1, divide_up(sizes.blocks(), kLanesMost));
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
      std::min({wanted, in_half_kept, sizes.blocks()}), least, lane_blocks_most(sizes.blocks())));
}

bool is_sane(const LaneSizes& sizes) {
  return sizes.samples > 0 && sizes.samples <= kSamplesMost && sizes.block_samples > 0 &&
         sizes.lane_blocks > 0 && sizes.lane_blocks <= lane_blocks_most(sizes.blocks()) &&
         sizes.blocks() <= std::uint64_t{kLanesMost} * sizes.lane_blocks;
}

}  // namespace batchflow::order
