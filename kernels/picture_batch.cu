// Pictures on a GPU.
//
// A block makes some rows of one picture. It scales the rows of the source across into a ring in
// shared memory, each once, and makes its rows out of those. So a picture is read once, but for the
// few rows that two blocks need, and written once.
//
// Sums of bytes times weights are exact, as on the CPU: a weight has 23 bits, and one instruction
// (dp4a) adds four products of bytes, so it is done for the three bytes of the weights.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>

#include "kernels/check_cuda.h"
#include "kernels/picture_batch.h"

namespace batchflow::kernels::on_gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 4;      // that scale on a processor at once: they hide each other's waits
constexpr int kStripRows = 32;  // of a block that scales
constexpr int kCropRows = 16;   // of a block that does not
constexpr int kColumnsMost = 256;  // of a block
constexpr int kRowsAtOnce = 2;     // that a thread scales across: they share the weights
constexpr int kRingRowsMost = 4096;
constexpr int kGroup = 4;  // taps that one instruction takes
constexpr unsigned kHalf = 1u << (kWeightBits - 1);

// ------------------------------------------------------------------------- weights and sums ----

// The weights of a group of taps, by bytes.
struct Weights4 {
  unsigned low, middle, high;
};
// They begin at 0: with a half in `low`, nvcc 13.0 made code of which a tenth of the bytes was
// wrong on an H200, for two rows at once.
struct Sum {
  unsigned low = 0, middle = 0, high = 0;

  __device__ void add(unsigned bytes, const Weights4& weights) {
    low = __dp4a(bytes, weights.low, low);
    middle = __dp4a(bytes, weights.middle, middle);
    high = __dp4a(bytes, weights.high, high);
  }
  __device__ unsigned rounded() const {
    return min((low + (middle << 8) + (high << 16) + kHalf) >> kWeightBits, 255u);
  }
};

// One axis of a scaling: which pixels of the source one pixel takes, and their weights.
struct Axis {
  int from, to;

  __device__ int first(int pixel) const {
    return from == to ? pixel : Triangle(from, to).first(pixel);
  }
  __device__ int end(int pixel) const {
    return from == to ? pixel + 1 : Triangle(from, to).end(pixel);
  }
  // Into groups[0], groups[stride] and so on, as many as `most`. Beyond the last tap weights are 0.
  __device__ void weights(int pixel, int most, int stride, Weights4* groups) const {
    const Triangle triangle(from, to);
    const int first_tap = first(pixel), end_tap = end(pixel);
    double sum = 0;
    for (int i = first_tap; i < end_tap; ++i) sum += from == to ? 1.0 : triangle.weight(pixel, i);
    for (int g = 0; g < most; ++g) {
      Weights4 made = {0, 0, 0};
      for (int k = 0; k < kGroup; ++k) {
        const int tap = first_tap + g * kGroup + k;
        if (tap >= end_tap) break;
        const auto weight = static_cast<unsigned>(
            fixed_weight(from == to ? 1.0 : triangle.weight(pixel, tap), sum));
        made.low |= (weight & 255u) << (8 * k);
        made.middle |= (weight >> 8 & 255u) << (8 * k);
        made.high |= (weight >> 16 & 255u) << (8 * k);
      }
      groups[g * stride] = made;
    }
  }
};

// ------------------------------------------------------------------------------- finishing ----

// Four elements of a type, and how they are made of four values of channels.
template <Element element>
struct Word;
template <>
struct Word<Element::u8> {
  using One = std::uint8_t;
  using Four = unsigned;
};
template <>
struct Word<Element::f16> {
  using One = std::uint16_t;
  using Four = uint2;
  static __device__ unsigned two(float a, float b) {
    const __half2 both = __floats2half2_rn(a, b);
    return *reinterpret_cast<const unsigned*>(&both);
  }
};
template <>
struct Word<Element::bf16> {
  using One = std::uint16_t;
  using Four = uint2;
  static __device__ unsigned two(float a, float b) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(a, b);
    return *reinterpret_cast<const unsigned*>(&both);
  }
};
template <>
struct Word<Element::f32> {
  using One = std::uint32_t;
  using Four = uint4;
};

// What a thread needs to finish values of any channel.
struct Finisher {
  const FinishTable* table;
  FinishTable::By by;

  __device__ explicit Finisher(const FinishTable* given) : table(given), by(given->by) {}

  // `channel` is that of the first; the others' are the same, or with `next` those that follow.
  template <Element element, bool next>
  __device__ typename Word<element>::Four four(int channel, const unsigned (&values)[4]) const {
    if constexpr (element == Element::u8) {
      return __byte_perm(__byte_perm(values[0], values[1], 0x0040),
                         __byte_perm(values[2], values[3], 0x0040), 0x5410);
    } else if (by == FinishTable::By::table) {
      unsigned bits[4];
      for (int i = 0; i < 4; ++i)
        bits[i] = __ldg(&table->bits[next ? (channel + i) % kChannels : channel][values[i]]);
      if constexpr (element == Element::f32)
        return {bits[0], bits[1], bits[2], bits[3]};
      else
        return {bits[0] | bits[1] << 16, bits[2] | bits[3] << 16};
    } else {
      float made[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const FinishTable::Channel& of =
            table->channels[next ? (channel + i) % kChannels : channel];
        made[i] = finished(by, of, static_cast<float>(values[i]));
      }
      if constexpr (element == Element::f32)
        return {__float_as_uint(made[0]), __float_as_uint(made[1]), __float_as_uint(made[2]),
                __float_as_uint(made[3])};
      else
        return {Word<element>::two(made[0], made[1]), Word<element>::two(made[2], made[3])};
    }
  }
};

// Four elements in a row that begin at `at`; only `count` of them are wanted.
template <Element element>
__device__ void store(typename Word<element>::One* at, typename Word<element>::Four four,
                      int count) {
  using One = typename Word<element>::One;
  if (count >= 4 && reinterpret_cast<std::uintptr_t>(at) % sizeof four == 0) {
    *reinterpret_cast<typename Word<element>::Four*>(at) = four;
    return;
  }
  for (int i = 0; i < 4; ++i)
    if (i < count) at[i] = reinterpret_cast<const One*>(&four)[i];
}

// So many words of bytes that begin anywhere, out of the whole words that hold them.
template <int count>
struct Bytes {
  unsigned words[count];

  __device__ explicit Bytes(const std::uint8_t* at) {
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    const auto* from = reinterpret_cast<const unsigned*>(address & ~std::uintptr_t{3});
    const auto shift = static_cast<unsigned>(address & 3) * 8;
    unsigned last = __ldg(from);
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const unsigned next = __ldg(from + i + 1);
      words[i] = __funnelshift_r(last, next, shift);
      last = next;
    }
  }
  // Of twelve bytes one channel of the four pixels: c, c + 3, c + 6 and c + 9.
  template <int channel>
  __device__ unsigned channel_bytes() const {
    if constexpr (channel == 0)
      return __byte_perm(__byte_perm(words[0], words[1], 0x0630), words[2], 0x5210);
    if constexpr (channel == 1)
      return __byte_perm(__byte_perm(words[0], words[1], 0x0741), words[2], 0x6210);
    return __byte_perm(__byte_perm(words[0], words[1], 0x0052), words[2], 0x7410);
  }
};

// ---------------------------------------------------------------------------------- scaling ----

// How a block divides its shared memory. All are counts, the same for all blocks of a batch.
struct Shape {
  int columns = 0;        // of the window, of one block: a multiple of four
  int across_groups = 0;  // of taps of one pixel
  int down_groups = 0;
  int ring_rows = 0;  // a power of two
  int rows = 0;       // of the result, that are made before the ring goes on
  // Where the tasks' results are made instead: null, or the scratch memory of a batch with jitters.
  std::byte* scratch = nullptr;
  std::size_t scratch_each = 0;

  __host__ __device__ int ring_row_bytes() const { return columns * kChannels; }
  __host__ __device__ std::size_t bytes() const {
    return sizeof(Weights4) * (static_cast<std::size_t>(across_groups) * columns +
                               static_cast<std::size_t>(down_groups) * kStripRows) +
           sizeof(int) * (static_cast<std::size_t>(columns) + kStripRows) +
           static_cast<std::size_t>(ring_rows) * ring_row_bytes();
  }
};

// Counts two indices that are passed through together, `step` at a time, without a division.
struct Walk {
  int inner, outer, step_inner, step_outer, count;

  __device__ Walk(int start, int step, int inner_count)
      : inner(start % inner_count),
        outer(start / inner_count),
        step_inner(step % inner_count),
        step_outer(step / inner_count),
        count(inner_count) {}
  __device__ void next() {
    inner += step_inner;
    outer += step_outer;
    if (inner >= count) {
      inner -= count;
      ++outer;
    }
  }
};

template <Element element, bool planes>
__global__ void __launch_bounds__(kThreads, kBlocks)
    scale_pictures(const PictureTask* tasks, const FinishTable* table, const Shape shape) {
  using One = typename Word<element>::One;
  const PictureTask& task = tasks[blockIdx.x];
  const Scaling s = task.scaling;
  const int y_first = static_cast<int>(blockIdx.y) * kStripRows;
  const int y_end = min(y_first + kStripRows, s.window.height);
  const int x_first = static_cast<int>(blockIdx.z) * shape.columns;
  const int columns = min(shape.columns, s.window.width - x_first);
  if (y_first >= y_end || columns <= 0) return;
  const Axis across{s.from.width, s.to.width}, down{s.from.height, s.to.height};

  extern __shared__ unsigned shared[];
  auto* const across_weights = reinterpret_cast<Weights4*>(shared);
  Weights4* const down_weights = across_weights + shape.across_groups * shape.columns;
  auto* const across_first = reinterpret_cast<int*>(down_weights + shape.down_groups * kStripRows);
  int* const down_first = across_first + shape.columns;
  auto* const ring = reinterpret_cast<std::uint8_t*>(down_first + kStripRows);

  for (int i = threadIdx.x; i < columns + (y_end - y_first); i += kThreads) {
    if (i < columns) {
      const int x = x_first + i;
      const int pixel = s.window.x + (s.flip ? s.window.width - 1 - x : x);
      across_first[i] = across.first(pixel);
      across.weights(pixel, shape.across_groups, shape.columns, across_weights + i);
    } else {
      const int y = i - columns;
      down_first[y] = down.first(s.window.y + y_first + y);
      down.weights(s.window.y + y_first + y, shape.down_groups, kStripRows, down_weights + y);
    }
  }
  __syncthreads();

  const std::uint8_t* const source = task.pixels +
                                     static_cast<std::size_t>(s.from.y) * task.stride +
                                     static_cast<std::size_t>(s.from.x) * kChannels;
  const std::size_t task_stride = task.stride;
  const int row_bytes = shape.ring_row_bytes();
  const int x_step = planes ? 1 : kChannels, plane = planes ? shape.columns : 1;
  const Finisher finish(table);
  One* const out =
      shape.scratch
          ? reinterpret_cast<One*>(shape.scratch + kJitterHeader + blockIdx.x * shape.scratch_each)
          : static_cast<One*>(task.out);
  const std::size_t width = s.window.width, height = s.window.height;

  const int ring_mask = shape.ring_rows - 1;
  int made = down_first[0];  // rows of the source that are scaled across, or not needed
  for (int y = y_first; y < y_end; y += shape.rows) {
    const int rows = min(shape.rows, y_end - y);
    const int needed = down.end(s.window.y + y + rows - 1);
    // Across: some pixels of some rows.
    const int row_groups = (needed - made + kRowsAtOnce - 1) / kRowsAtOnce;
    for (Walk at(threadIdx.x, kThreads, columns); at.outer < row_groups; at.next()) {
      const int x = at.inner, row = made + at.outer * kRowsAtOnce;
      const std::uint8_t* const from = source + static_cast<unsigned>(across_first[x]) * kChannels;
      Sum sums[kRowsAtOnce][kChannels];
      for (int g = 0; g < shape.across_groups; ++g) {
        const Weights4 weights = across_weights[g * shape.columns + x];
        if (g > 0 && (weights.low | weights.middle | weights.high) == 0) break;
#pragma unroll
        for (int r = 0; r < kRowsAtOnce; ++r) {
          const int at_row = min(row + r, needed - 1);
          const Bytes<3> bytes(from + static_cast<std::size_t>(at_row) * task_stride +
                               g * kGroup * kChannels);
          sums[r][0].add(bytes.channel_bytes<0>(), weights);
          sums[r][1].add(bytes.channel_bytes<1>(), weights);
          sums[r][2].add(bytes.channel_bytes<2>(), weights);
        }
      }
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r) {
        if (row + r >= needed) break;
        std::uint8_t* const to = ring + ((row + r) & ring_mask) * row_bytes + x * x_step;
        for (int c = 0; c < kChannels; ++c)
          to[c * plane] = static_cast<std::uint8_t>(sums[r][c].rounded());
      }
    }
    __syncthreads();
    // Down: four bytes of a row.
    const int words = row_bytes / 4;
    for (Walk at(threadIdx.x, kThreads, words); at.outer < rows; at.next()) {
      const int strip_row = y - y_first + at.outer;
      const int first = down_first[strip_row];
      Sum sums[4];
      for (int g = 0; g < shape.down_groups; ++g) {
        const Weights4 weights = down_weights[g * kStripRows + strip_row];
        if (g > 0 && (weights.low | weights.middle | weights.high) == 0) break;
        unsigned of_rows[kGroup];
#pragma unroll
        for (int k = 0; k < kGroup; ++k)
          of_rows[k] = reinterpret_cast<const unsigned*>(
              ring)[((first + g * kGroup + k) & ring_mask) * words + at.inner];
        const unsigned low01 = __byte_perm(of_rows[0], of_rows[1], 0x5140),
                       high01 = __byte_perm(of_rows[0], of_rows[1], 0x7362),
                       low23 = __byte_perm(of_rows[2], of_rows[3], 0x5140),
                       high23 = __byte_perm(of_rows[2], of_rows[3], 0x7362);
        sums[0].add(__byte_perm(low01, low23, 0x5410), weights);
        sums[1].add(__byte_perm(low01, low23, 0x7632), weights);
        sums[2].add(__byte_perm(high01, high23, 0x5410), weights);
        sums[3].add(__byte_perm(high01, high23, 0x7632), weights);
      }
      unsigned values[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) values[i] = sums[i].rounded();
      if constexpr (planes) {
        const int words_of_plane = shape.columns / 4;
        const int channel = (at.inner >= words_of_plane) + (at.inner >= 2 * words_of_plane);
        const int x = (at.inner - channel * words_of_plane) * 4;
        One* const to = out + (channel * height + (y + at.outer)) * width + x_first + x;
        store<element>(to, finish.four<element, false>(channel, values), columns - x);
      } else {
        const int first_byte = at.inner * 4;
        One* const to = out + ((y + at.outer) * width + x_first) * kChannels + first_byte;
        store<element>(to, finish.four<element, true>(at.inner % kChannels, values),
                       columns * kChannels - first_byte);
      }
    }
    __syncthreads();
    made = max(made, needed);
    if (y + rows < y_end) made = max(made, down_first[y + rows - y_first]);
  }
}

// For scales for which shared memory is too small: each pixel alone.
template <Element element, bool planes>
__global__ void __launch_bounds__(kThreads)
    scale_pixels(const PictureTask* tasks, const FinishTable* table, const Shape shape) {
  using One = typename Word<element>::One;
  const PictureTask& task = tasks[blockIdx.x];
  const Scaling& s = task.scaling;
  const std::size_t width = s.window.width, pixels = width * s.window.height;
  const Axis across{s.from.width, s.to.width}, down{s.from.height, s.to.height};
  const Triangle wide(across.from, across.to), high(down.from, down.to);
  const Finisher finish(table);
  One* const out =
      shape.scratch
          ? reinterpret_cast<One*>(shape.scratch + kJitterHeader + blockIdx.x * shape.scratch_each)
          : static_cast<One*>(task.out);
  for (std::size_t i = blockIdx.y * kThreads + threadIdx.x; i < pixels;
       i += std::size_t{gridDim.y} * kThreads) {
    const int x = static_cast<int>(i % width), y = static_cast<int>(i / width);
    const int pixel_x = s.window.x + (s.flip ? s.window.width - 1 - x : x);
    const int pixel_y = s.window.y + y;
    double sum_x = 0, sum_y = 0;
    for (int k = across.first(pixel_x); k < across.end(pixel_x); ++k)
      sum_x += across.from == across.to ? 1.0 : wide.weight(pixel_x, k);
    for (int k = down.first(pixel_y); k < down.end(pixel_y); ++k)
      sum_y += down.from == down.to ? 1.0 : high.weight(pixel_y, k);
    unsigned sums[kChannels] = {kHalf, kHalf, kHalf};
    for (int row = down.first(pixel_y); row < down.end(pixel_y); ++row) {
      unsigned of_row[kChannels] = {kHalf, kHalf, kHalf};
      for (int k = across.first(pixel_x); k < across.end(pixel_x); ++k) {
        const unsigned weight =
            fixed_weight(across.from == across.to ? 1.0 : wide.weight(pixel_x, k), sum_x);
        const std::uint8_t* from = task.pixels +
                                   static_cast<std::size_t>(s.from.y + row) * task.stride +
                                   static_cast<std::size_t>(s.from.x + k) * kChannels;
        for (int c = 0; c < kChannels; ++c) of_row[c] += from[c] * weight;
      }
      const unsigned weight =
          fixed_weight(down.from == down.to ? 1.0 : high.weight(pixel_y, row), sum_y);
      for (int c = 0; c < kChannels; ++c) sums[c] += min(of_row[c] >> kWeightBits, 255u) * weight;
    }
    for (int c = 0; c < kChannels; ++c) {
      const unsigned values[4] = {min(sums[c] >> kWeightBits, 255u), 0, 0, 0};
      store<element>(out + (planes ? c * pixels + i : i * kChannels + c),
                     finish.four<element, false>(c, values), 1);
    }
  }
}

// ---------------------------------------------------------------------------- crops, colours ----

// Four pixels into planes.
template <Element element>
__device__ void store_planes(typename Word<element>::One* out, std::size_t pixel,
                             std::size_t pixels, const unsigned (&of_channel)[kChannels], int count,
                             const Finisher& finish) {
#pragma unroll
  for (int c = 0; c < kChannels; ++c) {
    const unsigned four = of_channel[c];
    const unsigned values[4] = {four & 255u, four >> 8 & 255u, four >> 16 & 255u, four >> 24};
    store<element>(out + c * pixels + pixel, finish.four<element, false>(c, values), count);
  }
}

// Where a block of a batch of crops is.
struct CropStrip {
  const std::uint8_t* source;  // the window
  std::size_t stride, width, height;
  int y, rows;

  __device__ explicit CropStrip(const PictureTask& task)
      : source(task.pixels +
               static_cast<std::size_t>(task.scaling.from.y + task.scaling.window.y) * task.stride +
               static_cast<std::size_t>(task.scaling.from.x + task.scaling.window.x) * kChannels),
        stride(task.stride),
        width(static_cast<std::size_t>(task.scaling.window.width)),
        height(static_cast<std::size_t>(task.scaling.window.height)),
        y(static_cast<int>(blockIdx.y) * kCropRows),
        rows(min(kCropRows, task.scaling.window.height - y)) {}
};

// A batch in which nothing is scaled, into planes: four pixels at a time.
template <Element element>
__global__ void __launch_bounds__(kThreads)
    crop_to_planes(const PictureTask* tasks, const FinishTable* table) {
  const PictureTask& task = tasks[blockIdx.x];
  const CropStrip strip(task);
  const bool flip = task.scaling.flip;
  auto* const out = static_cast<typename Word<element>::One*>(task.out);
  const Finisher finish(table);
  const int width = static_cast<int>(strip.width), quads = (width + 3) / 4;
#pragma unroll 2
  for (Walk at(threadIdx.x, kThreads, quads); at.outer < strip.rows; at.next()) {
    const int x = at.inner * 4, y = strip.y + at.outer;
    const int count = min(4, width - x);
    // Mirrored: the four pixels that end where x is counted from the other side.
    const int from = flip ? max(width - 4 - x, 0) : x;
    const Bytes<3> bytes(strip.source + static_cast<std::size_t>(y) * strip.stride +
                         static_cast<unsigned>(from) * kChannels);
    unsigned of_channel[kChannels] = {bytes.channel_bytes<0>(), bytes.channel_bytes<1>(),
                                      bytes.channel_bytes<2>()};
    // At the end of a row fewer than four are left, which then come first.
    if (flip)
      for (unsigned& four : of_channel) four = __byte_perm(four, 0, 0x0123) >> (8 * (4 - count));
    store_planes<element>(out, y * strip.width + x, strip.width * strip.height, of_channel, count,
                          finish);
  }
}

// The same, channels beside each other: four values at a time, which begin at any channel.
// Mirrored, they are of two pixels that lie in the order of the picture.
template <Element element>
__global__ void __launch_bounds__(kThreads)
    crop_beside(const PictureTask* tasks, const FinishTable* table) {
  const PictureTask& task = tasks[blockIdx.x];
  const CropStrip strip(task);
  const bool flip = task.scaling.flip;
  auto* const out = static_cast<typename Word<element>::One*>(task.out);
  const Finisher finish(table);
  const int width = static_cast<int>(strip.width), row = width * kChannels;
#pragma unroll 2
  for (Walk at(threadIdx.x, kThreads, (row + 3) / 4); at.outer < strip.rows; at.next()) {
    const int first = at.inner * 4, channel = at.inner % kChannels;
    const int count = min(4, row - first);
    const std::uint8_t* const source =
        strip.source + static_cast<std::size_t>(strip.y + at.outer) * strip.stride;
    unsigned values[4];
    if (!flip) {
      const Bytes<1> bytes(source + first);
      for (int i = 0; i < 4; ++i) values[i] = bytes.words[0] >> (8 * i) & 255u;
    } else {
      // Byte i of the six is channel i % 3 of pixel `left` + i / 3.
      const int right = width - 1 - first / kChannels, left = max(right - 1, 0);
      const Bytes<2> bytes(source + static_cast<unsigned>(left) * kChannels);
      const std::uint64_t six = bytes.words[0] | std::uint64_t{bytes.words[1]} << 32;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int pixel = right - (channel + i) / kChannels, c = (channel + i) % kChannels;
        values[i] =
            static_cast<unsigned>(six >> (8 * (max(pixel - left, 0) * kChannels + c))) & 255u;
      }
    }
    store<element>(out + (strip.y + at.outer) * (strip.width * kChannels) + first,
                   finish.four<element, true>(channel, values), count);
  }
}

__device__ std::uint64_t* grey_sum(std::byte* scratch) {
  return reinterpret_cast<std::uint64_t*>(scratch);
}

// The sum of the greys of each picture, as it is when its contrast is changed.
__global__ void __launch_bounds__(kThreads)
    sum_greys(const PictureTask* tasks, std::byte* scratch, std::size_t scratch_each) {
  const PictureTask& task = tasks[blockIdx.x];
  const Jitter jitter = task.jitter;
  if (changes_nothing(ColourChange::contrast, jitter.factor_of(ColourChange::contrast))) return;
  std::byte* const mine = scratch + blockIdx.x * scratch_each;
  const auto* const from = reinterpret_cast<const std::uint8_t*>(mine + kJitterHeader);
  const std::size_t pixels =
      static_cast<std::size_t>(task.scaling.window.width) * task.scaling.window.height;
  std::uint64_t sum = 0;
  for (std::size_t i = blockIdx.y * kThreads + threadIdx.x; i < pixels;
       i += std::size_t{gridDim.y} * kThreads) {
    std::uint8_t rgb[kChannels];
    for (int c = 0; c < kChannels; ++c) rgb[c] = from[i * kChannels + c];
    for (std::size_t k = 0; k < kColourChanges; ++k) {
      const ColourChange change = jitter.order[k];
      if (change == ColourChange::contrast) break;
      if (!changes_nothing(change, jitter.factor_of(change)))
        change_pixel(change, jitter.factor_of(change), 0, rgb);
    }
    sum += static_cast<std::uint64_t>(grey_of(rgb));
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_down_sync(~0u, sum, lanes);
  if (threadIdx.x % 32 == 0)
    atomicAdd(reinterpret_cast<unsigned long long*>(grey_sum(mine)),
              static_cast<unsigned long long>(sum));
}

template <Element element, bool planes>
__global__ void __launch_bounds__(kThreads)
    change_colours(const PictureTask* tasks, const FinishTable* table, std::byte* scratch,
                   std::size_t scratch_each) {
  const PictureTask& task = tasks[blockIdx.x];
  const Jitter jitter = task.jitter;
  std::byte* const mine = scratch + blockIdx.x * scratch_each;
  const auto* const from = reinterpret_cast<const std::uint8_t*>(mine + kJitterHeader);
  const std::size_t pixels =
      static_cast<std::size_t>(task.scaling.window.width) * task.scaling.window.height;
  const int mean = mean_grey(*grey_sum(mine), pixels);
  const Finisher finish(table);
  for (std::size_t i = 4 * (blockIdx.y * kThreads + threadIdx.x); i < pixels;
       i += std::size_t{gridDim.y} * kThreads * 4) {
    const int count = static_cast<int>(min(pixels - i, std::size_t{4}));
    const auto* const words = reinterpret_cast<const unsigned*>(from + i * kChannels);
    std::uint8_t values[4][kChannels];
#pragma unroll
    for (int k = 0; k < 4 * kChannels; ++k)
      values[k / kChannels][k % kChannels] =
          static_cast<std::uint8_t>(words[k / 4] >> (8 * (k % 4)));
#pragma unroll
    for (std::size_t k = 0; k < kColourChanges; ++k) {
      const ColourChange change = jitter.order[k];
      const float factor = jitter.factor_of(change);
      if (changes_nothing(change, factor)) continue;
      for (int p = 0; p < 4; ++p) change_pixel(change, factor, mean, values[p]);
    }
    auto* const out = static_cast<typename Word<element>::One*>(task.out);
#pragma unroll
    for (int w = 0; w < kChannels; ++w) {
      unsigned four[4];
#pragma unroll
      for (int k = 0; k < 4; ++k)
        four[k] = planes ? values[k][w] : values[(4 * w + k) / kChannels][(4 * w + k) % kChannels];
      if constexpr (planes)
        store<element>(out + w * pixels + i, finish.four<element, false>(w, four), count);
      else
        store<element>(out + i * kChannels + 4 * w,
                       finish.four<element, true>(4 * w % kChannels, four),
                       count * kChannels - 4 * w);
    }
  }
}

// -------------------------------------------------------------------------------- launching ----

int groups_of(double scale) {
  // The most taps of a pixel: a triangle twice as wide as the scale, and rounding.
  return (2 * static_cast<int>(std::ceil(scale)) + 2 + kGroup - 1) / kGroup;
}

unsigned divided(std::size_t count, std::size_t by) {
  return static_cast<unsigned>((count + by - 1) / by);
}

// False: shared memory is too small for these scales.
bool fit(const PictureLimits& limits, std::size_t shared_most, Shape& shape) {
  const unsigned tiles = divided(limits.window.width, kColumnsMost);
  shape.columns = static_cast<int>(divided(divided(limits.window.width, tiles), 4) * 4);
  shape.across_groups = groups_of(limits.across);
  shape.down_groups = groups_of(limits.down);
  for (shape.rows = 8; shape.rows > 0; shape.rows /= 2) {
    const double needed = (shape.rows - 1) * limits.down + 2 * limits.down + 3;
    if (needed > kRingRowsMost) continue;
    shape.ring_rows = 1;
    while (shape.ring_rows < needed) shape.ring_rows *= 2;
    if (shape.bytes() <= shared_most) return true;
  }
  return false;
}

template <Element element, bool planes>
void scale(const PictureBatch& batch, const FinishTable* table, Shape shape, cudaStream_t stream) {
  int device = 0, shared_most = 0;
  BF_CUDA(cudaGetDevice(&device));
  BF_CUDA(cudaDeviceGetAttribute(&shared_most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  if (fit(batch.limits, static_cast<std::size_t>(shared_most), shape)) {
    const dim3 grid(batch.count, divided(batch.limits.window.height, kStripRows),
                    divided(batch.limits.window.width, shape.columns));
    const auto kernel = scale_pictures<element, planes>;
    BF_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shape.bytes())));
    kernel<<<grid, kThreads, shape.bytes(), stream>>>(batch.tasks, table, shape);
  } else {
    scale_pixels<element, planes>
        <<<dim3(batch.count, 64), kThreads, 0, stream>>>(batch.tasks, table, shape);
  }
}

template <Element element, bool planes>
void prepare(const PictureBatch& batch, cudaStream_t stream) {
  if (batch.limits.jitters) {
    const std::size_t each = jitter_scratch(batch.limits.window);
    Shape shape;
    shape.scratch = batch.scratch;
    shape.scratch_each = each;
    BF_CUDA(cudaMemset2DAsync(batch.scratch, each, 0, kJitterHeader, batch.count, stream));
    scale<Element::u8, false>(batch, batch.table, shape, stream);
    sum_greys<<<dim3(batch.count, 8), kThreads, 0, stream>>>(batch.tasks, batch.scratch, each);
    change_colours<element, planes><<<dim3(batch.count, 16), kThreads, 0, stream>>>(
        batch.tasks, batch.table, batch.scratch, each);
  } else if (batch.limits.scales) {
    scale<element, planes>(batch, batch.table, {}, stream);
  } else {
    const dim3 grid(batch.count, divided(batch.limits.window.height, kCropRows));
    const auto kernel = planes ? crop_to_planes<element> : crop_beside<element>;
    kernel<<<grid, kThreads, 0, stream>>>(batch.tasks, batch.table);
  }
  BF_CUDA(cudaGetLastError());
}

template <Element element>
void prepare(const PictureBatch& batch, cudaStream_t stream) {
  batch.planes ? prepare<element, true>(batch, stream) : prepare<element, false>(batch, stream);
}

}  // namespace

void prepare_pictures(const PictureBatch& batch, Stream given) {
  const auto stream = static_cast<cudaStream_t>(given);
  if (batch.count == 0) return;
  switch (batch.element) {
    case Element::u8:
      return prepare<Element::u8>(batch, stream);
    case Element::f16:
      return prepare<Element::f16>(batch, stream);
    case Element::bf16:
      return prepare<Element::bf16>(batch, stream);
    case Element::f32:
      return prepare<Element::f32>(batch, stream);
  }
}

}  // namespace batchflow::kernels::on_gpu
