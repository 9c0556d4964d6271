#include "runtime/prepare/resample.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "core/base/check.h"

namespace batchflow::prepare {
namespace {

using kernels::Triangle;

// Keys' cubic with a = -1/2, as wide as the scale when a picture is made smaller. It gives Pillow's
// weights, as Triangle does.
struct Cubic {
  static constexpr double kReach = 2;
  double scale;
  double width;
  int from;

  Cubic(int from_size, int to_size)
      : scale(static_cast<double>(from_size) / to_size),
        width(scale > 1.0 ? scale : 1.0),
        from(from_size) {}

  double centre(int pixel) const { return (pixel + 0.5) * scale; }
  int first(int pixel) const {
    return std::max(0, static_cast<int>(centre(pixel) - kReach * width + 0.5));
  }
  int end(int pixel) const {
    return std::min(from, static_cast<int>(centre(pixel) + kReach * width + 0.5));
  }
  double weight(int pixel, int source) const {
    constexpr double a = -0.5;
    const double signed_distance = (source - centre(pixel) + 0.5) * (1.0 / width);
    const double x = signed_distance < 0 ? -signed_distance : signed_distance;
    if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    return x < 2.0 ? (((x - 5) * x + 8) * x - 4) * a : 0.0;
  }
};

// Calls `use` with the position of each pixel of the result. Pillow adds them up, and so do we: it
// decides which of two pixels a position between them is.
template <class Use>
void each_nearest(int from, int to, int end, Use&& use) {
  const double scale = static_cast<double>(from) / to;
  double at = scale * 0.5;
  for (int i = 0; i < end; ++i, at += scale) use(i, std::min(static_cast<int>(at), from - 1));
}

// The most pixels of the source that one pixel takes: as many as the filter is wide, and rounding.
Bytes sources_most(int from, int to, Filter filter) {
  if (from == to || filter == Filter::nearest) return 1;
  const Bytes wide =
      (static_cast<Bytes>(from) + static_cast<Bytes>(to) - 1) / static_cast<Bytes>(to);
  const Bytes all = filter == Filter::bicubic ? 4 * wide + 2 : 2 * wide + 2;
  return std::min<Bytes>(static_cast<Bytes>(from), all);
}

template <class Weights>
std::pair<int, int> needed_of_axis(const Weights& weights, int window_first, int window_count) {
  const int first = weights.first(window_first);
  return {first, weights.end(window_first + window_count - 1) - first};
}

std::pair<int, int> needed_of_axis(int from, int to, Filter filter, int window_first,
                                   int window_count) {
  if (from == to) return {window_first, window_count};
  if (filter == Filter::bilinear)
    return needed_of_axis(Triangle(from, to), window_first, window_count);
  if (filter == Filter::bicubic) return needed_of_axis(Cubic(from, to), window_first, window_count);
  int first = 0, last = 0;
  each_nearest(from, to, window_first + window_count, [&](int pixel, int source) {
    if (pixel == window_first) first = source;
    last = source;
  });
  return {first, last - first + 1};
}

}  // namespace

Box needed(const Scaling& s) {
  const auto [x, width] =
      needed_of_axis(s.from.width, s.to.width, s.filter, s.window.x, s.window.width);
  const auto [y, height] =
      needed_of_axis(s.from.height, s.to.height, s.filter, s.window.y, s.window.height);
  return {s.from.x + x, s.from.y + y, width, height};
}

void Resampler::Axis::plan(int from, int to, Filter filter, int window_first, int window_count) {
  copies = from == to || filter == Filter::nearest;
  shifts = from == to;
  // Emptied first, so that none grows beyond what it needs.
  taps.clear();
  taps.resize(static_cast<std::size_t>(window_count));
  if (!copies) {
    if (filter == Filter::bilinear) return plan(Triangle(from, to), window_first);
    return plan(Cubic(from, to), window_first);
  }
  weights.assign(1, 1 << kWeightBits);
  if (shifts) {
    for (std::size_t i = 0; i < taps.size(); ++i)
      taps[i] = {window_first + static_cast<int>(i), 1, 0};
    return;
  }
  each_nearest(from, to, window_first + window_count, [&](int pixel, int source) {
    if (pixel >= window_first)
      taps[static_cast<std::size_t>(pixel - window_first)] = {source, 1, 0};
  });
}

// Each pixel has weights for as many taps as the one with most, 0 for those beyond. So all are
// computed alike, tap by tap, and a processor need not predict how many taps a pixel has.
template <class Weights>
void Resampler::Axis::plan(const Weights& filter, int window_first) {
  const std::size_t count = taps.size();
  std::size_t each = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const int pixel = window_first + static_cast<int>(i);
    const int first = filter.first(pixel);
    taps[i] = {first, filter.end(pixel) - first, 0};
    each = std::max(each, static_cast<std::size_t>(taps[i].count));
  }
  exact.clear();
  exact.resize(count * (each + 1));
  double* const sums = exact.data() + count * each;
  for (std::size_t k = 0; k < each; ++k) {
    double* const at = exact.data() + k * count;
    for (std::size_t i = 0; i < count; ++i) {
      const double weight =
          filter.weight(window_first + static_cast<int>(i), taps[i].first + static_cast<int>(k));
      at[i] = static_cast<int>(k) < taps[i].count ? weight : 0.0;
      sums[i] += at[i];
    }
  }
  weights.clear();
  weights.resize(count * each);
  for (std::size_t k = 0; k < each; ++k)
    for (std::size_t i = 0; i < count; ++i)
      weights[i * each + k] = kernels::fixed_weight(exact[k * count + i], sums[i]);
  for (std::size_t i = 0; i < count; ++i) taps[i].at = i * each;
}

void Resampler::Axis::drop() {
  batchflow::memory::drop(taps);
  batchflow::memory::drop(weights);
  batchflow::memory::drop(exact);
}

void Resampler::Needs::add(const Scaling& s) {
  const Box read = needed(s);
  const Bytes sources = sources_most(s.from.width, s.to.width, s.filter);
  add_axis(0, sources, s.window.width);
  add_axis(3, sources_most(s.from.height, s.to.height, s.filter), s.window.height);
  const auto width = static_cast<std::size_t>(s.window.width);
  const Bytes row = WindowTable::row_bytes(width);
  const WindowTable::Needs windows = WindowTable::needs(s.from.width, s.to.width, width, sources);
  grow(6, windows.windows);
  grow(7, windows.weights);
  grow(8, memory::counted_product(row, static_cast<Bytes>(read.height)));
  grow(9, row);
}

void Resampler::Needs::add_axis(std::size_t first, Bytes sources, int window_count) {
  const auto count = static_cast<Bytes>(window_count);
  grow(first, memory::counted_product(count, sizeof(Taps)));
  grow(first + 1,
       memory::counted_product(memory::counted_product(count, sources), sizeof(std::int32_t)));
  grow(first + 2,
       memory::counted_product(memory::counted_product(count, sources + 1), sizeof(double)));
}

Bytes Resampler::Needs::sum() const {
  return std::accumulate(parts_.begin(), parts_.end(), Bytes{0}, memory::counted_sum);
}

Bytes Resampler::held() const {
  return across_.held() + down_.held() + windows_.held() + between_.bytes() + row_.bytes();
}

void Resampler::drop() {
  across_.drop();
  down_.drop();
  windows_.drop();
  between_.drop();
  row_.drop();
}

void Resampler::run(const Scaling& s, const PictureView& source, const Box& origin,
                    PictureBuffer& out) {
  begin(s, source, origin);
  out.reset(s.window.extent());
  for (int y = 0; y < s.window.height; ++y) {
    const std::uint8_t* made = make_row(y, out.row(y));
    if (made != out.row(y)) std::memcpy(out.row(y), made, out.stride());
  }
}

void Resampler::run(const Scaling& s, const PictureView& source, const Box& origin,
                    const Finish& finish, std::byte* out) {
  begin(s, source, origin);
  auto* const row = reinterpret_cast<std::uint8_t*>(row_.have(row_bytes_));
  for (int y = 0; y < s.window.height; ++y)
    finish.write_row(s.window.extent(), y, make_row(y, row), kernels_, out);
}

void Resampler::begin(const Scaling& s, const PictureView& source, const Box& origin) {
  const Box read = needed(s);
  BF_CHECK(read.x >= origin.x && read.y >= origin.y &&
           read.x + read.width <= origin.x + source.extent.width &&
           read.y + read.height <= origin.y + source.extent.height);
  source_ = source.part({read.x - origin.x, read.y - origin.y, read.width, read.height});
  fetch_first_rows();
  across_.plan(s.from.width, s.to.width, s.filter, s.window.x, s.window.width);
  down_.plan(s.from.height, s.to.height, s.filter, s.window.y, s.window.height);
  // Taps count from the corner of `from`; here they count from the corner of what is read.
  for (Taps& tap : across_.taps) tap.first -= read.x - s.from.x;
  for (Taps& tap : down_.taps) tap.first -= read.y - s.from.y;
  row_bytes_ = static_cast<std::size_t>(s.window.width) * kChannels;
  made_ = 0;
  if (s.upside_down) std::reverse(down_.taps.begin(), down_.taps.end());
  if (across_.shifts && !s.flip) {
    scaled_ = source_;
    made_ = read.height;
    return;
  }
  if (s.flip) std::reverse(across_.taps.begin(), across_.taps.end());
  if (kernels_.windows != WindowForm::none)
    windows_.plan(across_.taps, across_.weights.data(),
                  static_cast<std::size_t>(read.width) * kChannels, kernels_.windows);
  const std::size_t stride = WindowTable::row_bytes(static_cast<std::size_t>(s.window.width));
  between_.have(stride * static_cast<std::size_t>(read.height));
  scaled_ = {reinterpret_cast<const std::uint8_t*>(between_.data()),
             stride,
             {s.window.width, read.height}};
}

const std::uint8_t* Resampler::make_row(int y, std::uint8_t* memory) {
  const Taps& tap = down_.taps[static_cast<std::size_t>(y)];
  while (made_ < tap.first + tap.count) make_rows_across();
  if (down_.copies) return scaled_.row(tap.first);
  kernels_.down(scaled_.pixels, scaled_.stride, tap, down_.weights.data(), row_bytes_, memory);
  return memory;
}

void Resampler::make_rows_across() {
  const int rows = kernels_.rows_at_once;
  // If fewer rows are left, the last one is used again.
  std::array<const std::uint8_t*, Kernels::kRowsMost> from;
  std::array<std::uint8_t*, Kernels::kRowsMost> to;
  for (int i = 0; i < rows; ++i) {
    const int row = std::min(made_ + i, source_.extent.height - 1);
    from[static_cast<std::size_t>(i)] = source_.row(row);
    to[static_cast<std::size_t>(i)] = reinterpret_cast<std::uint8_t*>(between_.data()) +
                                      static_cast<std::size_t>(row) * scaled_.stride;
  }
  const bool last = made_ + 2 * rows > source_.extent.height;
  kernels_.across(from.data(), last ? 0 : static_cast<std::size_t>(rows) * source_.stride,
                  across_.taps, across_.weights.data(), windows_.view(), to.data());
  made_ += rows;
}

// What is kept of a picture seldom lies in a cache. The first rows come while tables are made, and
// each of the others while rows before it are scaled.
void Resampler::fetch_first_rows() const {
  constexpr std::size_t line = 64;
  const std::size_t bytes = static_cast<std::size_t>(source_.extent.width) * kChannels;
  for (int y = 0; y < std::min(kernels_.rows_at_once, source_.extent.height); ++y)
    for (std::size_t at = 0; at < bytes; at += line) __builtin_prefetch(source_.row(y) + at);
}

}  // namespace batchflow::prepare
