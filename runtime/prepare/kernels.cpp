#include "runtime/prepare/kernels.h"

#include <algorithm>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace batchflow::prepare {
namespace {

constexpr std::int32_t kHalf = 1 << (kWeightBits - 1);

// Sums stay below 2^31: the weights of one pixel sum up to about one, and those above 0 to less
// than 1.3. The bicubic filter has weights below 0, so that a sum may lie outside 0 to 255; with
// very many weights, their rounding may take it there, too.
constexpr std::uint8_t rounded(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

void split_from(std::size_t first, const std::uint8_t* pixels, std::size_t count,
                std::uint8_t* __restrict red, std::uint8_t* __restrict green,
                std::uint8_t* __restrict blue) {
  for (std::size_t i = first; i < count; ++i) {
    red[i] = pixels[3 * i];
    green[i] = pixels[3 * i + 1];
    blue[i] = pixels[3 * i + 2];
  }
}

namespace plain {

struct Sums {
  static constexpr std::size_t kBytes = 32;
  std::int32_t values[kBytes];

  Sums() { std::fill_n(values, kBytes, kHalf); }
  void add(const std::uint8_t* bytes, std::int32_t weight) {
    for (std::size_t i = 0; i < kBytes; ++i) values[i] += bytes[i] * weight;
  }
  void store(std::uint8_t* bytes) const {
    for (std::size_t i = 0; i < kBytes; ++i) bytes[i] = rounded(values[i]);
  }
};

#include "runtime/prepare/kernel_loops.h"

// Sixteen rows are turned into columns, so that bytes with the same weights lie side by side.
constexpr int kRows = 16;
using Bytes16 = std::uint8_t __attribute__((vector_size(16)));
static_assert(kRows == sizeof(Bytes16));

// Turns sixteen rows of sixteen bytes into sixteen columns: four times, each row of the first half
// is interleaved with the corresponding row of the second half.
void turn(Bytes16 (&rows)[kRows]) {
  constexpr int half = kRows / 2;
  for (int pass = 0; pass < 4; ++pass) {
    Bytes16 next[kRows];
    for (int i = 0; i < half; ++i) {
      next[2 * i] = __builtin_shufflevector(rows[i], rows[i + half], 0, 16, 1, 17, 2, 18, 3, 19, 4,
                                            20, 5, 21, 6, 22, 7, 23);
      next[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + half], 8, 24, 9, 25, 10, 26, 11,
                                                27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    std::memcpy(rows, next, sizeof next);
  }
}

// Bytes [first, end) of rows into columns: that byte of all rows, then the next one. Rows that are
// `next` bytes behind them are fetched meanwhile.
void to_columns(const std::uint8_t* const* rows, std::size_t next, std::size_t first,
                std::size_t end, std::uint8_t* columns) {
  Bytes16 block[kRows];
  for (; first + kRows <= end; first += kRows, columns += sizeof block) {
    for (int r = 0; r < kRows; ++r) {
      std::memcpy(&block[r], rows[r] + first, sizeof block[r]);
      __builtin_prefetch(rows[r] + first + next);
    }
    turn(block);
    std::memcpy(columns, block, sizeof block);
  }
  for (; first < end; ++first)
    for (int r = 0; r < kRows; ++r) *columns++ = rows[r][first];
}

// And back.
void to_rows(const std::uint8_t* columns, std::size_t first, std::size_t end,
             std::uint8_t* const* rows) {
  Bytes16 block[kRows];
  for (; first + kRows <= end; first += kRows, columns += sizeof block) {
    std::memcpy(block, columns, sizeof block);
    turn(block);
    for (int r = 0; r < kRows; ++r) std::memcpy(rows[r] + first, &block[r], sizeof block[r]);
  }
  for (; first < end; ++first)
    for (int r = 0; r < kRows; ++r) rows[r][first] = *columns++;
}

struct ColumnSums {
  std::int32_t values[kRows];

  ColumnSums() { std::fill_n(values, kRows, kHalf); }
  void add(const std::uint8_t* column, std::int32_t weight) {
    for (int i = 0; i < kRows; ++i) values[i] += column[i] * weight;
  }
  void store(std::uint8_t* column) const {
    for (int i = 0; i < kRows; ++i) column[i] = rounded(values[i]);
  }
};

// Some pixels at a time, with columns that stay in the processor's cache.
void across(const std::uint8_t* const* rows, std::size_t next, std::span<const Taps> taps,
            const std::int32_t* weights, const Windows&, std::uint8_t* const* out) {
  constexpr std::size_t pixel = 3 * kRows, pixels_most = 32;
  constexpr int source_most = 256;
  std::uint8_t columns[source_most * pixel], made[pixels_most * pixel];
  for (std::size_t done = 0; done < taps.size();) {
    int first = taps[done].first, end = first;
    std::size_t end_pixel = done;
    for (; end_pixel < taps.size() && end_pixel - done < pixels_most; ++end_pixel) {
      const int with_first = std::min(first, taps[end_pixel].first);
      const int with_end = std::max(end, taps[end_pixel].first + taps[end_pixel].count);
      if (with_end - with_first > source_most) break;
      first = with_first;
      end = with_end;
    }
    if (end_pixel == done) {  // even one pixel takes more
      std::uint8_t* to[kRows];
      for (int i = 0; i < kRows; ++i) to[i] = out[i] + 3 * done;
      across_by_taps(kRows, rows, taps.subspan(done, 1), weights, to);
      ++done;
      continue;
    }
    to_columns(rows, next, 3 * static_cast<std::size_t>(first), 3 * static_cast<std::size_t>(end),
               columns);
    std::uint8_t* to = made;
    for (const Taps& tap : taps.subspan(done, end_pixel - done)) {
      const std::uint8_t* from = columns + static_cast<std::size_t>(tap.first - first) * pixel;
      ColumnSums red, green, blue;
      for (int k = 0; k < tap.count; ++k, from += pixel) {
        const std::int32_t weight = weights[tap.at + static_cast<std::size_t>(k)];
        red.add(from, weight);
        green.add(from + kRows, weight);
        blue.add(from + 2 * kRows, weight);
      }
      red.store(to);
      green.store(to + kRows);
      blue.store(to + 2 * kRows);
      to += pixel;
    }
    to_rows(made, 3 * done, 3 * end_pixel, out);
    done = end_pixel;
  }
}

void split(const std::uint8_t* pixels, std::size_t count, std::uint8_t* red, std::uint8_t* green,
           std::uint8_t* blue) {
  split_from(0, pixels, count, red, green, blue);
}

constexpr Kernels kTable = {"plain", kRows, WindowForm::none, across, down, split, nullptr};

}  // namespace plain

#if defined(__x86_64__)
// For these functions alone, so that no inline function of a header is compiled for a processor
// that is not there.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif

namespace wide {

__m128i sixteen(const std::uint8_t* bytes) {
  __m128i loaded = _mm_setzero_si128();
  std::memcpy(&loaded, bytes, sizeof loaded);
  return loaded;
}

// Sixteen bytes each of two rows.
__m256i of_two(const std::uint8_t* low, const std::uint8_t* high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(sixteen(low)), sixteen(high), 1);
}

__m256i twice(const std::uint8_t* bytes) {
  return _mm256_broadcastsi128_si256(sixteen(bytes));
}

void store_two(__m256i from, std::uint8_t* low, std::uint8_t* high) {
  const __m128i first = _mm256_castsi256_si128(from), second = _mm256_extracti128_si256(from, 1);
  std::memcpy(low, &first, sizeof first);
  std::memcpy(high, &second, sizeof second);
}

__m256i eight(const std::uint8_t* bytes) {
  __m128i loaded = _mm_setzero_si128();
  std::memcpy(&loaded, bytes, 8);
  return _mm256_cvtepu8_epi32(loaded);
}

struct Sums {
  static constexpr std::size_t kBytes = 32;
  __m256i values[4];

  Sums() {  // an implied one would be no such function
    for (__m256i& value : values) value = _mm256_set1_epi32(kHalf);
  }
  void add(const std::uint8_t* bytes, std::int32_t weight) {
    const __m256i weights = _mm256_set1_epi32(weight);
    for (int i = 0; i < 4; ++i)
      values[i] = _mm256_add_epi32(values[i], _mm256_mullo_epi32(eight(bytes + 8 * i), weights));
  }
  __m256i words(int i) const {
    return _mm256_packus_epi32(_mm256_srai_epi32(values[i], kWeightBits),
                               _mm256_srai_epi32(values[i + 1], kWeightBits));
  }
  void store(std::uint8_t* bytes) const {
    // Packing works within the halves of a vector: fours of bytes are put in order afterwards.
    const __m256i packed = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(words(0), words(2)),
                                                       _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    std::memcpy(bytes, &packed, sizeof packed);
  }
};

#include "runtime/prepare/kernel_loops.h"

// Rows are taken in pairs: a vector has a group of each.
constexpr int kRows = 8, kPairs = kRows / 2;

// Adds what a window has of one group of all rows.
template <int taps>
[[gnu::always_inline]] inline void add_window(const std::uint8_t* const* rows, const Window& window,
                                              const std::int32_t* weights,
                                              __m256i (&sums)[kPairs]) {
  __m256i bytes[kPairs];
  for (int i = 0; i < kPairs; ++i)
    bytes[i] = of_two(rows[2 * i] + window.at, rows[2 * i + 1] + window.at);
  __m256i picked = twice(window.first);
  for (int k = 0; k < taps; ++k) {
    const __m256i weight =
        twice(reinterpret_cast<const std::uint8_t*>(weights + k * Window::kGroup));
    for (int i = 0; i < kPairs; ++i)
      sums[i] = _mm256_add_epi32(sums[i],
                                 _mm256_mullo_epi32(_mm256_shuffle_epi8(bytes[i], picked), weight));
    picked = _mm256_add_epi32(picked, _mm256_set1_epi32(3));
  }
}

template <int taps>
[[gnu::always_inline]] inline void add_group(const std::uint8_t* const* rows, int windows,
                                             const Window*& window, const std::int32_t*& weights,
                                             __m256i (&sums)[kPairs]) {
  for (__m256i& sum : sums) sum = _mm256_set1_epi32(kHalf);
  do {
    add_window<taps>(rows, *window, weights, sums);
    ++window;
    weights += taps * Window::kGroup;
  } while (--windows > 0);
  for (__m256i& sum : sums) sum = _mm256_srai_epi32(sum, kWeightBits);
}

// `one`: each group has one window.
template <int taps, bool one>
void across_by(const std::uint8_t* const* rows_in, std::size_t next, const Windows& all,
               std::uint8_t* const* out) {
  const std::uint8_t* rows[kRows];
  for (int i = 0; i < kRows; ++i) rows[i] = rows_in[i];
  const Window* window = all.windows.data();
  const Window* const end = window + all.windows.size();
  const std::int32_t* weights = all.weights;
  const int each = one ? 1 : all.each;
  for (std::size_t to = 0; window < end; to += Window::kBytes) {
    // A little at a time: a processor waits for few lines of memory at once.
    for (const std::uint8_t* row : rows) __builtin_prefetch(row + next + window->at);
    __m256i first[kPairs], second[kPairs], third[kPairs], fourth[kPairs];
    add_group<taps>(rows, each, window, weights, first);
    add_group<taps>(rows, each, window, weights, second);
    for (int i = 0; i < kPairs; ++i) first[i] = _mm256_packus_epi32(first[i], second[i]);
    add_group<taps>(rows, each, window, weights, third);
    add_group<taps>(rows, each, window, weights, fourth);
    for (int i = 0; i < kPairs; ++i)
      store_two(_mm256_packus_epi16(first[i], _mm256_packus_epi32(third[i], fourth[i])),
                out[2 * i] + to, out[2 * i + 1] + to);
  }
}

template <int taps>
void across_by(const std::uint8_t* const* rows, std::size_t next, const Windows& windows,
               std::uint8_t* const* out) {
  if (windows.each == 1)
    across_by<taps, true>(rows, next, windows, out);
  else
    across_by<taps, false>(rows, next, windows, out);
}

void across(const std::uint8_t* const* rows, std::size_t next, std::span<const Taps> taps,
            const std::int32_t* weights, const Windows& windows, std::uint8_t* const* out) {
  switch (windows.taps) {
    case 0:
      return across_by_taps(kRows, rows, taps, weights, out);
    case 1:
      return across_by<1>(rows, next, windows, out);
    case 2:
      return across_by<2>(rows, next, windows, out);
    case 3:
      return across_by<3>(rows, next, windows, out);
    case 4:
      return across_by<4>(rows, next, windows, out);
    default:
      return across_by<5>(rows, next, windows, out);
  }
}

// Of 48 bytes as three vectors, each channel has other places in each vector. So the vectors are
// blended, and then the bytes put in order.
struct SplitPlaces {
  alignas(16) std::uint8_t every_third[3][16] = {}, order[3][16] = {};

  constexpr SplitPlaces() {
    for (int channel = 0; channel < 3; ++channel) {
      for (int i = 0; i < 16; ++i) {
        every_third[channel][i] = i % 3 == channel ? 0xff : 0;
        order[channel][i] = static_cast<std::uint8_t>((3 * i + channel) % 16);
      }
    }
  }
};
constexpr SplitPlaces kSplitPlaces;

void split(const std::uint8_t* pixels, std::size_t count, std::uint8_t* red, std::uint8_t* green,
           std::uint8_t* blue) {
  constexpr std::size_t at_once = 32;
  const __m256i places[3] = {twice(kSplitPlaces.every_third[0]), twice(kSplitPlaces.every_third[1]),
                             twice(kSplitPlaces.every_third[2])};
  const __m256i order[3] = {twice(kSplitPlaces.order[0]), twice(kSplitPlaces.order[1]),
                            twice(kSplitPlaces.order[2])};
  std::uint8_t* const planes[3] = {red, green, blue};
  std::size_t i = 0;
  for (; i + at_once <= count; i += at_once) {
    const std::uint8_t* from = pixels + 3 * i;
    const __m256i first = of_two(from, from + 48), second = of_two(from + 16, from + 64),
                  third = of_two(from + 32, from + 80);
    for (int channel = 0; channel < 3; ++channel) {
      const __m256i mixed =
          _mm256_blendv_epi8(_mm256_blendv_epi8(first, second, places[(channel + 2) % 3]), third,
                             places[(channel + 1) % 3]);
      const __m256i ordered = _mm256_shuffle_epi8(mixed, order[channel]);
      std::memcpy(planes[channel] + i, &ordered, sizeof ordered);
    }
  }
  split_from(i, pixels, count, red, green, blue);
}

// `from` / `by`, given 1 / `by`: a quotient that may be wrong in its last bit, and what it lacks.
__m256 quotient(__m256 from, __m256 by, __m256 one_by) {
  const __m256 near = _mm256_mul_ps(from, one_by);
  return _mm256_fmadd_ps(_mm256_fnmadd_ps(near, by, from), one_by, near);
}

__m256 normalised(const std::uint8_t* bytes, __m256 mean, __m256 deviation, __m256 one_by) {
  const __m256 share = quotient(_mm256_cvtepi32_ps(eight(bytes)), _mm256_set1_ps(255.0f),
                                _mm256_set1_ps(1.0f / 255.0f));
  return quotient(_mm256_sub_ps(share, mean), deviation, one_by);
}

void normalise(const std::uint8_t* pixels, std::size_t count, const ChannelNorm* channels,
               std::byte* red, std::byte* green, std::byte* blue) {
  constexpr std::size_t at_once = 256;
  std::uint8_t bytes[3][at_once] = {};
  std::byte* const planes[3] = {red, green, blue};
  for (std::size_t done = 0; done < count; done += at_once) {
    const std::size_t some = std::min(at_once, count - done);
    split(pixels + 3 * done, some, bytes[0], bytes[1], bytes[2]);
    for (int channel = 0; channel < 3; ++channel) {
      const __m256 mean = _mm256_set1_ps(channels[channel].mean),
                   deviation = _mm256_set1_ps(channels[channel].deviation),
                   one_by = _mm256_set1_ps(1.0f / channels[channel].deviation);
      std::byte* to = planes[channel] + done * sizeof(float);
      std::size_t i = 0;
      for (; i + 8 <= some; i += 8, to += sizeof(__m256)) {
        const __m256 made = normalised(bytes[channel] + i, mean, deviation, one_by);
        std::memcpy(to, &made, sizeof made);
      }
      if (i == some) continue;
      const __m256 made = normalised(bytes[channel] + i, mean, deviation, one_by);
      std::memcpy(to, &made, (some - i) * sizeof(float));
    }
  }
}

constexpr Kernels kTable = {"wide", kRows, WindowForm::numbers, across, down, split, normalise};

}  // namespace wide

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

}  // namespace

const Kernels& plain_kernels() {
  return plain::kTable;
}

const Kernels* wide_kernels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &wide::kTable;
#endif
  return nullptr;
}

}  // namespace batchflow::prepare
