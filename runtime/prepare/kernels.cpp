#include "runtime/prepare/kernels.h"

#include <algorithm>
#include <cstring>

// Each body is compiled into two functions, one of which may use AVX2. That way, and not by a flag
// for a whole file, no inline function of a header is compiled for a processor that is not there.
#if defined(__x86_64__)
#define BATCHFLOW_WIDE [[gnu::target("avx2")]]
#endif
#define BATCHFLOW_BODY [[gnu::always_inline]] inline

namespace batchflow {
namespace {

using Bytes4 = std::uint8_t __attribute__((vector_size(4)));
using Words4 = std::int32_t __attribute__((vector_size(16)));

constexpr std::int32_t kHalf = 1 << (kWeightBits - 1);

// The byte before the pixel, then its channels.
BATCHFLOW_BODY Words4 load_pixel(const std::uint8_t* pixel) {
  Bytes4 bytes;
  std::memcpy(&bytes, pixel - 1, sizeof bytes);
  return __builtin_convertvector(bytes, Words4);
}

BATCHFLOW_BODY void store_pixel(Words4 sums, std::uint8_t* pixel) {
  sums >>= kWeightBits;
  sums = sums < 0 ? Words4{} : sums;
  sums = sums > 255 ? Words4{} + 255 : sums;
  const Bytes4 bytes = __builtin_convertvector(sums, Bytes4);
  std::memcpy(pixel, reinterpret_cast<const std::uint8_t*>(&bytes) + 1, 3);
}

BATCHFLOW_BODY void across_body(const std::uint8_t* row, std::span<const Taps> taps,
                                const std::int32_t* weights, std::uint8_t* out) {
  for (const Taps& tap : taps) {
    const std::uint8_t* pixel = row + static_cast<std::size_t>(tap.first) * 3;
    const std::int32_t* weight = weights + tap.at;
    Words4 sums = Words4{} + kHalf;
    for (int k = 0; k < tap.count; ++k, pixel += 3) sums += load_pixel(pixel) * weight[k];
    store_pixel(sums, out);
    out += 3;
  }
}

BATCHFLOW_BODY void down_body(const std::uint8_t* rows, std::size_t stride, const Taps& taps,
                              const std::int32_t* weights, std::size_t bytes, std::uint8_t* out) {
  // As many sums as stay in registers.
  constexpr std::size_t kRun = 64;
  std::int32_t sums[kRun];
  for (std::size_t from = 0; from < bytes; from += kRun) {
    const std::uint8_t* column = rows + static_cast<std::size_t>(taps.first) * stride + from;
    const auto add = [&](std::size_t run) __attribute__((always_inline)) {
      for (std::size_t i = 0; i < run; ++i) sums[i] = kHalf;
      for (int k = 0; k < taps.count; ++k) {
        const std::uint8_t* row = column + static_cast<std::size_t>(k) * stride;
        const std::int32_t weight = weights[taps.at + static_cast<std::size_t>(k)];
        for (std::size_t i = 0; i < run; ++i) sums[i] += row[i] * weight;
      }
      for (std::size_t i = 0; i < run; ++i)
        out[from + i] = static_cast<std::uint8_t>(std::clamp(sums[i] >> kWeightBits, 0, 255));
    };
    if (bytes - from >= kRun)
      add(kRun);
    else
      add(bytes - from);
  }
}

BATCHFLOW_BODY void split_body(const std::uint8_t* pixels, std::size_t count,
                               std::uint8_t* __restrict red, std::uint8_t* __restrict green,
                               std::uint8_t* __restrict blue) {
  for (std::size_t i = 0; i < count; ++i) {
    red[i] = pixels[3 * i];
    green[i] = pixels[3 * i + 1];
    blue[i] = pixels[3 * i + 2];
  }
}

#define BATCHFLOW_KERNELS(prefix, target)                                                        \
  target void prefix##_across(const std::uint8_t* row, std::span<const Taps> taps,               \
                              const std::int32_t* weights, std::uint8_t* out) {                  \
    across_body(row, taps, weights, out);                                                        \
  }                                                                                              \
  target void prefix##_down(const std::uint8_t* rows, std::size_t stride, const Taps& taps,      \
                            const std::int32_t* weights, std::size_t bytes, std::uint8_t* out) { \
    down_body(rows, stride, taps, weights, bytes, out);                                          \
  }                                                                                              \
  target void prefix##_split(const std::uint8_t* pixels, std::size_t count, std::uint8_t* red,   \
                             std::uint8_t* green, std::uint8_t* blue) {                          \
    split_body(pixels, count, red, green, blue);                                                 \
  }                                                                                              \
  constexpr Kernels prefix##_table = {#prefix, prefix##_across, prefix##_down, prefix##_split};

BATCHFLOW_KERNELS(plain, )
#ifdef BATCHFLOW_WIDE
BATCHFLOW_KERNELS(wide, BATCHFLOW_WIDE)
#endif

}  // namespace

const Kernels& plain_kernels() {
  return plain_table;
}

const Kernels* wide_kernels() {
#ifdef BATCHFLOW_WIDE
  if (__builtin_cpu_supports("avx2")) return &wide_table;
#endif
  return nullptr;
}

}  // namespace batchflow
