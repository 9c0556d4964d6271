// The inner loops over pixels, compiled once for every processor of a kind and once for wide
// vectors. Both give the same bytes, because they compute in whole numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace batchflow::prepare {

// What one pixel of an axis of the result is made of: `count` pixels of the source from `first`,
// with the weights that begin at `at`.
struct Taps {
  int first = 0;
  int count = 0;
  std::size_t at = 0;
};
// Weights are fixed-point numbers with this many bits below one. The weights of one pixel sum up to
// one, but for rounding.
inline constexpr int kWeightBits = 22;

// Across, this many rows are processed at a time, turned so that they lie side by side.
inline constexpr int kRowsAtOnce = 16;

struct Kernels {
  const char* name;

  // The first `bytes` bytes of kRowsAtOnce rows as columns: byte i of each row, then byte i + 1;
  // and back.
  void (*to_columns)(const std::uint8_t* const* rows, std::size_t bytes, std::uint8_t* columns);
  void (*to_rows)(const std::uint8_t* columns, std::size_t bytes, std::uint8_t* const* rows);
  // Columns of pixels from columns of pixels, one for each of `taps`.
  void (*across)(const std::uint8_t* columns, std::span<const Taps> taps,
                 const std::int32_t* weights, std::uint8_t* out);
  // A row of `bytes` bytes from `taps.count` rows, `stride` apart.
  void (*down)(const std::uint8_t* rows, std::size_t stride, const Taps& taps,
               const std::int32_t* weights, std::size_t bytes, std::uint8_t* out);
  // Pixels into three planes.
  void (*split)(const std::uint8_t* pixels, std::size_t count, std::uint8_t* red,
                std::uint8_t* green, std::uint8_t* blue);
};

const Kernels& plain_kernels();
// Null if the processor has no wider vectors than plain_kernels() uses.
const Kernels* wide_kernels();

}  // namespace batchflow::prepare
