#include "runtime/prepare/kernels.h"

#include <algorithm>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace batchflow::prepare {
namespace {

using Bytes16 = std::uint8_t __attribute__((vector_size(16)));
static_assert(kRowsAtOnce == sizeof(Bytes16));

constexpr std::int32_t kHalf = 1 << (kWeightBits - 1);

// Sums stay below 2^31: weights are not negative, and those of one pixel sum up to about one. With
// very many weights, their rounding may take a sum above 255.
namespace plain {

struct Sums {
  std::int32_t values[kRowsAtOnce];

  Sums() { std::fill_n(values, kRowsAtOnce, kHalf); }
  void add(const std::uint8_t* bytes, std::int32_t weight) {
    for (int i = 0; i < kRowsAtOnce; ++i) values[i] += bytes[i] * weight;
  }
  void store(std::uint8_t* bytes) const {
    for (int i = 0; i < kRowsAtOnce; ++i)
      bytes[i] = static_cast<std::uint8_t>(std::min(values[i] >> kWeightBits, 255));
  }
};

#include "runtime/prepare/kernel_loops.h"

}  // namespace plain

#if defined(__x86_64__)
// For these functions alone, so that no inline function of a header is compiled for a processor
// that is not there.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif

namespace wide {

struct Sums {
  __m256i low, high;

  Sums() : low(_mm256_set1_epi32(kHalf)), high(low) {}  // an implied one would be no such function
  void add(const std::uint8_t* bytes, std::int32_t weight) {
    const __m256i weights = _mm256_set1_epi32(weight);
    low = _mm256_add_epi32(low, _mm256_mullo_epi32(eight(bytes), weights));
    high = _mm256_add_epi32(high, _mm256_mullo_epi32(eight(bytes + 8), weights));
  }
  void store(std::uint8_t* bytes) const {
    // Packing works within the halves of a vector: the quarters are put in order afterwards.
    const __m256i words =
        _mm256_permute4x64_epi64(_mm256_packus_epi32(_mm256_srai_epi32(low, kWeightBits),
                                                     _mm256_srai_epi32(high, kWeightBits)),
                                 0b11'01'10'00);
    const __m128i packed =
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    std::memcpy(bytes, &packed, sizeof packed);
  }
  static __m256i eight(const std::uint8_t* bytes) {
    __m128i loaded = _mm_setzero_si128();
    std::memcpy(&loaded, bytes, 8);
    return _mm256_cvtepu8_epi32(loaded);
  }
};

#include "runtime/prepare/kernel_loops.h"

}  // namespace wide

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

constexpr Kernels kWide = wide::make_table("wide");
#endif

constexpr Kernels kPlain = plain::make_table("plain");

}  // namespace

const Kernels& plain_kernels() {
  return kPlain;
}

const Kernels* wide_kernels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return &kWide;
#endif
  return nullptr;
}

}  // namespace batchflow::prepare
