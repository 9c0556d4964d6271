// What the header of a JPEG says of how it may be decoded, without a library.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "kernels/picture.h"
#include "runtime/gpu/decode_shares.h"

namespace batchflow::gpu {

struct JpegHeader {
  kernels::Extent2 extent;
  // The ways in which a picture of this kind may be tried. A GPU gets only pictures that it decodes
  // to nearly the CPU's pixels: eight bits, grey or YCbCr, with an end. The decoder finds other
  // damage, on a GPU perhaps not all of it.
  JpegWays ways = 0;
};

// Empty: it is no JPEG, or one without a size.
std::optional<JpegHeader> read_jpeg_header(std::span<const std::byte> bytes);

// A decoded picture in memory: rows of RGB without gaps, and what kernels read behind them.
std::size_t row_bytes(kernels::Extent2 extent);
std::size_t slot_bytes(kernels::Extent2 extent);  // a multiple of 256

}  // namespace batchflow::gpu
