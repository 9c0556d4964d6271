// The inner loops over pixels, compiled once for every processor of a kind and once for wide
// vectors. Both give the same bytes, because they compute in whole numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/picture.h"

namespace batchflow::prepare {

// What one pixel of an axis of the result is made of: `count` pixels of the source from `first`,
// with the weights that begin at `at`.
struct Taps {
  int first = 0;
  int count = 0;
  std::size_t at = 0;
};
using kernels::kWeightBits;

// The bytes of a row that is scaled across, in groups of four. A group looks at its taps through
// windows of sixteen bytes of the source, each for a few taps. With wide vectors one instruction
// picks a tap of all four bytes out of a window.
struct Window {
  static constexpr int kBytes = 16, kGroup = 4;

  std::uint32_t at = 0;  // where it begins in the row of the source
  // Where in it the first tap of each byte of the group is, and behind that three bytes that stand
  // for 0: so bytes become numbers of 32 bits. The next tap is a pixel further. What lies beyond
  // the window has no weight.
  std::uint8_t first[kBytes] = {0, 128, 128, 128, 0, 128, 128, 128,
                                0, 128, 128, 128, 0, 128, 128, 128};
};
struct Windows {
  static constexpr int kTapsMost = 5;

  int each = 0;  // of each group; 0: there are none
  int taps = 0;  // of each window
  // Of the first group, of the second and so on. There are groups for whole vectors of sixteen
  // bytes; those beyond the end of the row have no weights.
  std::span<const Window> windows;
  // For each window, for each of its taps, that of each byte of the group.
  const std::int32_t* weights = nullptr;
};

// What a channel's bytes become: (byte / 255 - mean) / deviation.
struct ChannelNorm {
  float mean = 0, deviation = 1;
};

struct Kernels {
  static constexpr int kRowsMost = 16;

  const char* name;
  int rows_at_once;  // of across(), at most kRowsMost
  bool by_windows;   // across() takes windows, where there are some, and else taps

  // `taps.size()` pixels of each of rows_at_once rows. With windows, what it writes ends with a
  // whole vector. The rows that are processed next, if any, lie `next` bytes behind these.
  void (*across)(const std::uint8_t* const* rows, std::size_t next, std::span<const Taps> taps,
                 const std::int32_t* weights, const Windows& windows, std::uint8_t* const* out);
  // A row of `bytes` bytes from `taps.count` rows, `stride` apart.
  void (*down)(const std::uint8_t* rows, std::size_t stride, const Taps& taps,
               const std::int32_t* weights, std::size_t bytes, std::uint8_t* out);
  // Pixels into three planes.
  void (*split)(const std::uint8_t* pixels, std::size_t count, std::uint8_t* red,
                std::uint8_t* green, std::uint8_t* blue);
  // Pixels into three planes of normalised numbers. Null: there is no such kernel. It multiplies in
  // place of dividing, and corrects the result, which is nearly always what division gives: it has
  // to be compared for all bytes before it is used (Finish).
  void (*normalise)(const std::uint8_t* pixels, std::size_t count, const ChannelNorm* channels,
                    std::byte* red, std::byte* green, std::byte* blue);
};

const Kernels& plain_kernels();
// Null if the processor has no wider vectors than plain_kernels() uses.
const Kernels* wide_kernels();

}  // namespace batchflow::prepare
