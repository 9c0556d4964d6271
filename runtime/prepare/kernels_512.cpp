// The loops that scale, with vectors of 64 bytes and an instruction that adds four products of
// bytes at once. A weight is three bytes for it: high, middle and low, of which each may be below
// 0. The products of each are summed up apart, so the sums are those of the other kernels.
#include <algorithm>
#include <array>

#include "runtime/prepare/kernels.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace batchflow::prepare {

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vnni"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vnni")
#endif

namespace {
namespace of_512 {

// What is added to be rounded to the nearest, as a number of high digits.
constexpr int kHalf = 1 << (kWeightBits - 1 - 16);
// Rows are taken in fours: a vector has a group of each.
constexpr int kRows = 8, kVectors = kRows / 4;

__m128i sixteen(const void* bytes) {
  return _mm_loadu_si128(static_cast<const __m128i*>(bytes));
}
__m512i four_times(const void* bytes) {
  return _mm512_broadcast_i32x4(sixteen(bytes));
}
__m512i of_four(const std::uint8_t* const* rows, std::size_t at) {
  __m512i all = _mm512_castsi128_si512(sixteen(rows[0] + at));
  all = _mm512_inserti32x4(all, sixteen(rows[1] + at), 1);
  all = _mm512_inserti32x4(all, sixteen(rows[2] + at), 2);
  return _mm512_inserti32x4(all, sixteen(rows[3] + at), 3);
}

// The weights of four bytes, each digit of all four side by side.
struct Weights {
  __m512i high, middle, low;

  // Sums of one digit go on from those of the one before it.
  __m512i rounded_sums(__m512i bytes) const {
    __m512i sums = _mm512_dpbusd_epi32(_mm512_set1_epi32(kHalf), bytes, high);
    sums = _mm512_dpbusd_epi32(_mm512_slli_epi32(sums, 8), bytes, middle);
    sums = _mm512_dpbusd_epi32(_mm512_slli_epi32(sums, 8), bytes, low);
    return _mm512_srai_epi32(sums, kWeightBits);
  }
};

// Of more than four bytes.
struct Sums {
  __m512i high = _mm512_set1_epi32(kHalf), middle = _mm512_setzero_si512(),
          low = _mm512_setzero_si512();

  Sums() {}  // an implied one would be no such function
  void add(__m512i bytes, const Weights& weights) {
    high = _mm512_dpbusd_epi32(high, bytes, weights.high);
    middle = _mm512_dpbusd_epi32(middle, bytes, weights.middle);
    low = _mm512_dpbusd_epi32(low, bytes, weights.low);
  }
  __m512i rounded() const {
    const __m512i upper = _mm512_add_epi32(_mm512_slli_epi32(high, 8), middle);
    return _mm512_srai_epi32(_mm512_add_epi32(_mm512_slli_epi32(upper, 8), low), kWeightBits);
  }
};

// `one`: the group has one window.
template <bool one>
[[gnu::always_inline]] inline void add_group(const std::uint8_t* const* rows, int windows,
                                             const Window*& window, const std::int8_t*& digits,
                                             __m512i (&made)[kVectors]) {
  Sums sums[kVectors];
  do {
    const __m512i places = four_times(window->first);
    const Weights weights = {four_times(digits), four_times(digits + Window::kBytes),
                             four_times(digits + 2 * Window::kBytes)};
    for (int i = 0; i < kVectors; ++i) {
      const __m512i bytes = _mm512_shuffle_epi8(of_four(rows + 4 * i, window->at), places);
      if constexpr (one)
        made[i] = weights.rounded_sums(bytes);
      else
        sums[i].add(bytes, weights);
    }
    ++window;
    digits += kDigits * Window::kBytes;
  } while (!one && --windows > 0);
  if constexpr (!one)
    for (int i = 0; i < kVectors; ++i) made[i] = sums[i].rounded();
}

template <bool one>
void across_by(const std::uint8_t* const* rows_in, std::size_t next, const Windows& all,
               std::uint8_t* const* out) {
  const std::uint8_t* rows[kRows];
  for (int i = 0; i < kRows; ++i) rows[i] = rows_in[i];
  const Window* window = all.windows.data();
  const Window* const end = window + all.windows.size();
  const std::int8_t* digits = all.digits;
  for (std::size_t to = 0; window < end; to += Window::kBytes) {
    // A little at a time: a processor waits for few lines of memory at once.
    for (const std::uint8_t* row : rows) __builtin_prefetch(row + next + window->at);
    __m512i first[kVectors], second[kVectors], third[kVectors], fourth[kVectors];
    add_group<one>(rows, all.each, window, digits, first);
    add_group<one>(rows, all.each, window, digits, second);
    add_group<one>(rows, all.each, window, digits, third);
    add_group<one>(rows, all.each, window, digits, fourth);
    for (int i = 0; i < kVectors; ++i) {
      const __m512i bytes = _mm512_packus_epi16(_mm512_packus_epi32(first[i], second[i]),
                                                _mm512_packus_epi32(third[i], fourth[i]));
      const auto store = [&](int row, __m128i sixteen_bytes) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out[4 * i + row] + to), sixteen_bytes);
      };
      store(0, _mm512_castsi512_si128(bytes));
      store(1, _mm512_extracti32x4_epi32(bytes, 1));
      store(2, _mm512_extracti32x4_epi32(bytes, 2));
      store(3, _mm512_extracti32x4_epi32(bytes, 3));
    }
  }
}

void across(const std::uint8_t* const* rows, std::size_t next, std::span<const Taps> taps,
            const std::int32_t* weights, const Windows& windows, std::uint8_t* const* out) {
  if (windows.each == 0) return wide_kernels()->across(rows, next, taps, weights, windows, out);
  if (windows.each == 1)
    across_by<true>(rows, next, windows, out);
  else
    across_by<false>(rows, next, windows, out);
}

// `count`: of the rows, if there are four at most; 0 where only the processor knows it. There are
// `weights` for each four rows.
template <int count>
void down_by(const std::uint8_t* first, std::size_t stride, int rows, const Weights* weights,
             std::size_t bytes, std::uint8_t* out) {
  constexpr std::size_t at_once = 64;
  constexpr int vectors = 4;  // with sums of 64 bytes
  static_assert(count <= 4);
  const int n = count > 0 ? count : rows;
  for (std::size_t i = 0; i < bytes; i += at_once) {
    const __mmask64 here = bytes - i >= at_once ? ~__mmask64{0} : (__mmask64{1} << (bytes - i)) - 1;
    const auto row = [&](int k) {
      return k < n ? _mm512_maskz_loadu_epi8(here, first + i + static_cast<std::size_t>(k) * stride)
                   : _mm512_setzero_si512();
    };
    Sums sums[vectors];
    __m512i made[vectors];
    for (int k = 0; k < n; k += 4) {
      const __m512i one = row(k), two = row(k + 1), three = row(k + 2), four = row(k + 3);
      // Bytes of four rows side by side, within the quarters of a vector.
      const __m512i low = _mm512_unpacklo_epi8(one, two), high = _mm512_unpackhi_epi8(one, two),
                    low_next = _mm512_unpacklo_epi8(three, four),
                    high_next = _mm512_unpackhi_epi8(three, four);
      const __m512i all[vectors] = {
          _mm512_unpacklo_epi16(low, low_next), _mm512_unpackhi_epi16(low, low_next),
          _mm512_unpacklo_epi16(high, high_next), _mm512_unpackhi_epi16(high, high_next)};
      for (int v = 0; v < vectors; ++v) {
        if constexpr (count > 0)
          made[v] = weights->rounded_sums(all[v]);
        else
          sums[v].add(all[v], weights[k / 4]);
      }
    }
    if constexpr (count == 0)
      for (int v = 0; v < vectors; ++v) made[v] = sums[v].rounded();
    // Packing works within the quarters, too.
    _mm512_mask_storeu_epi8(out + i, here,
                            _mm512_packus_epi16(_mm512_packus_epi32(made[0], made[1]),
                                                _mm512_packus_epi32(made[2], made[3])));
  }
}

void down(const std::uint8_t* rows, std::size_t stride, const Taps& taps,
          const std::int32_t* weights, std::size_t bytes, std::uint8_t* out) {
  constexpr int fours_most = 8;
  if (taps.count > 4 * fours_most)
    return wide_kernels()->down(rows, stride, taps, weights, bytes, out);
  const std::uint8_t* first = rows + static_cast<std::size_t>(taps.first) * stride;
  Weights fours[fours_most];
  for (int k = 0; k < taps.count; k += 4) {
    std::uint32_t words[kDigits] = {};
    for (int i = 0; i < std::min(4, taps.count - k); ++i) {
      const auto digits = digits_of(weights[taps.at + static_cast<std::size_t>(k + i)]);
      for (std::size_t d = 0; d < kDigits; ++d)
        words[d] |= std::uint32_t{static_cast<std::uint8_t>(digits[d])} << (8 * i);
    }
    const auto all = [&](std::size_t d) {
      return _mm512_set1_epi32(static_cast<std::int32_t>(words[d]));
    };
    fours[k / 4] = {all(0), all(1), all(2)};
  }
  switch (taps.count) {
    case 2:
      return down_by<2>(first, stride, 2, fours, bytes, out);
    case 3:
      return down_by<3>(first, stride, 3, fours, bytes, out);
    case 4:
      return down_by<4>(first, stride, 4, fours, bytes, out);
    default:
      return down_by<0>(first, stride, taps.count, fours, bytes, out);
  }
}

}  // namespace of_512
}  // namespace

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

const Kernels* widest_kernels() {
#if defined(__x86_64__)
  const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512vnni");
  const Kernels* const wide = wide_kernels();
  if (!has || !wide) return nullptr;
  static const Kernels table = {"widest",     of_512::kRows, WindowForm::digits, of_512::across,
                                of_512::down, wide->split,   wide->normalise};
  return &table;
#else
  return nullptr;
#endif
}

std::vector<const Kernels*> all_kernels() {
  std::vector<const Kernels*> all = {&plain_kernels()};
  for (const Kernels* one : {wide_kernels(), widest_kernels()})
    if (one) all.push_back(one);
  return all;
}

const Kernels& best_kernels() {
  return *all_kernels().back();
}

}  // namespace batchflow::prepare
