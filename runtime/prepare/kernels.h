// The inner loops over pixels, compiled once for every processor of a kind, once for wide vectors,
// and once for the widest. All give the same bytes, because they compute in whole numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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
  // For each byte of the group: where in the window its first tap is, and then three bytes that
  // stand for 0, so that bytes become numbers of 32 bits. The next tap is a pixel further. Taps
  // beyond the window have no weight.
  std::uint8_t first[kBytes] = {0, 128, 128, 128, 0, 128, 128, 128,
                                0, 128, 128, 128, 0, 128, 128, 128};
};

// What kernels read of a window, and how. `digits`: they pick four taps of a byte at once, and a
// weight is three numbers of eight bits, the high one first. So `first` of a window has the places
// of four taps of its first byte, then of the second one, and 128 for a tap that is none.
enum class WindowForm : std::uint8_t { none, numbers, digits };
inline constexpr std::size_t kDigits = 3;
inline constexpr int kTapsByDigits = 4;
// REQUIRES: it is a weight of a pixel: above -2^22 and below 2^23 - 2^15
constexpr std::array<std::int8_t, kDigits> digits_of(std::int32_t weight) {
  const auto low = static_cast<std::int8_t>(weight & 0xff);
  const std::int32_t rest = (weight - low) >> 8;
  const auto middle = static_cast<std::int8_t>(rest & 0xff);
  return {static_cast<std::int8_t>((rest - middle) >> 8), middle, low};
}

struct Windows {
  static constexpr int kTapsMost = 5;

  int each = 0;  // of each group; 0: there are none
  int taps = 0;  // of each window
  // Of the first group, of the second and so on. There are groups for whole vectors of sixteen
  // bytes; those beyond the end of the row have no weights.
  std::span<const Window> windows;
  // For each window, for each of its taps, that of each byte of the group.
  const std::int32_t* weights = nullptr;
  // In place of `weights`: for each window the high digits of its taps, where they stand in
  // `first`, then the middle and the low ones.
  const std::int8_t* digits = nullptr;
};

// What a channel's bytes become: (byte / 255 - mean) / deviation.
struct ChannelNorm {
  float mean = 0, deviation = 1;
};

struct Kernels {
  static constexpr int kRowsMost = 16;

  const char* name;
  int rows_at_once;    // of across(), at most kRowsMost
  WindowForm windows;  // of those that across() takes where there are some; else it takes taps

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
// Null if the processor has no vectors of 64 bytes, or cannot add products of bytes.
const Kernels* widest_kernels();
// All that this processor has, the fastest last.
std::vector<const Kernels*> all_kernels();
const Kernels& best_kernels();

}  // namespace batchflow::prepare
