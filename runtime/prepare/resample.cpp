#include "runtime/prepare/resample.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "core/base/check.h"

namespace batchflow::prepare {
namespace {

// The triangle of the linear filter, as wide as the scale when a picture is made smaller.
struct Triangle {
  double scale;
  double width;
  int from;

  Triangle(int from_size, int to_size)
      : scale(static_cast<double>(from_size) / to_size),
        width(std::max(scale, 1.0)),
        from(from_size) {}

  double centre(int pixel) const { return (pixel + 0.5) * scale; }
  int first(int pixel) const { return std::max(0, static_cast<int>(centre(pixel) - width + 0.5)); }
  int end(int pixel) const { return std::min(from, static_cast<int>(centre(pixel) + width + 0.5)); }
  double weight(int pixel, int source) const {
    const double distance = (source - centre(pixel) + 0.5) * (1.0 / width);
    return std::max(0.0, 1.0 - (distance < 0 ? -distance : distance));
  }
};

// The most pixels of the source that one pixel takes: a triangle as wide as that, and rounding.
Bytes sources_most(int from, int to) {
  const Bytes wide =
      (static_cast<Bytes>(from) + static_cast<Bytes>(to) - 1) / static_cast<Bytes>(to);
  return std::min<Bytes>(static_cast<Bytes>(from), 2 * wide + 2);
}

std::pair<int, int> needed_of_axis(int from, int to, int window_first, int window_count) {
  if (from == to) return {window_first, window_count};
  const Triangle triangle(from, to);
  const int first = triangle.first(window_first);
  return {first, triangle.end(window_first + window_count - 1) - first};
}

}  // namespace

Box needed(const Scaling& s) {
  const auto [x, width] = needed_of_axis(s.from.width, s.to.width, s.window.x, s.window.width);
  const auto [y, height] = needed_of_axis(s.from.height, s.to.height, s.window.y, s.window.height);
  return {s.from.x + x, s.from.y + y, width, height};
}

// Their sizes are known, so that they need not grow.
void Resampler::Axis::plan(int from, int to, int window_first, int window_count) {
  taps.clear();
  weights.clear();
  copies = from == to;
  const auto count = static_cast<std::size_t>(window_count);
  const std::size_t sources = copies ? 1 : sources_most(from, to);
  taps.reserve(count);
  weights.reserve(count * sources);
  exact.reserve(sources);
  const Triangle triangle(from, to);
  for (int pixel = window_first; pixel < window_first + window_count; ++pixel) {
    if (copies) {
      taps.push_back({pixel, 1, weights.size()});
      weights.push_back(1 << kWeightBits);
      continue;
    }
    const int first = triangle.first(pixel);
    const int end = triangle.end(pixel);
    taps.push_back({first, end - first, weights.size()});
    exact.clear();
    double sum = 0;
    for (int source = first; source < end; ++source) {
      exact.push_back(triangle.weight(pixel, source));
      sum += exact.back();
    }
    for (const double weight : exact)
      weights.push_back(static_cast<std::int32_t>(0.5 + weight / sum * (1 << kWeightBits)));
  }
}

void Resampler::Axis::drop() {
  batchflow::memory::drop(taps);
  batchflow::memory::drop(weights);
  batchflow::memory::drop(exact);
}

void Resampler::Needs::add(const Scaling& s) {
  const Box read = needed(s);
  add_axis(0, s.from.width, s.to.width, s.window.width);
  add_axis(3, s.from.height, s.to.height, s.window.height);
  const auto rows = [](int width) {
    return memory::counted_product(memory::counted_product(static_cast<Bytes>(width), kChannels),
                                   kRowsAtOnce);
  };
  parts_[6] = std::max(parts_[6], rows(read.width));
  parts_[7] = std::max(parts_[7], rows(s.window.width));
  parts_[8] = std::max(parts_[8], PictureBuffer::bytes({s.window.width, read.height}));
}

void Resampler::Needs::add_axis(std::size_t first, int from, int to, int window_count) {
  const auto count = static_cast<Bytes>(window_count);
  const Bytes sources = from == to ? 1 : sources_most(from, to);
  const std::array<Bytes, 3> tables = {
      memory::counted_product(count, sizeof(Taps)),
      memory::counted_product(memory::counted_product(count, sources), sizeof(std::int32_t)),
      memory::counted_product(sources, sizeof(double))};
  for (std::size_t i = 0; i < tables.size(); ++i)
    parts_[first + i] = std::max(parts_[first + i], tables[i]);
}

Bytes Resampler::Needs::sum() const {
  return std::accumulate(parts_.begin(), parts_.end(), Bytes{0}, memory::counted_sum);
}

Bytes Resampler::held() const {
  return across_.held() + down_.held() + columns_.bytes() + scaled_.bytes() + between_.held();
}

void Resampler::drop() {
  across_.drop();
  down_.drop();
  columns_.drop();
  scaled_.drop();
  between_.drop();
}

void Resampler::run(const Scaling& s, const PictureView& source, const Box& origin,
                    PictureBuffer& out) {
  const Box read = needed(s);
  BF_CHECK(read.x >= origin.x && read.y >= origin.y &&
           read.x + read.width <= origin.x + source.extent.width &&
           read.y + read.height <= origin.y + source.extent.height);
  across_.plan(s.from.width, s.to.width, s.window.x, s.window.width);
  down_.plan(s.from.height, s.to.height, s.window.y, s.window.height);
  // Taps count from the corner of `from`; here they count from the corner of what is read.
  for (Taps& tap : across_.taps) tap.first -= read.x - s.from.x;
  for (Taps& tap : down_.taps) tap.first -= read.y - s.from.y;
  if (s.flip) std::reverse(across_.taps.begin(), across_.taps.end());

  PictureView rows = source.part({read.x - origin.x, read.y - origin.y, read.width, read.height});
  if (!across_.copies || s.flip) {
    between_.reset({s.window.width, read.height});
    run_across(rows);
    rows = between_.view();
  }
  out.reset(s.window.extent());
  for (int y = 0; y < s.window.height; ++y) {
    const Taps& tap = down_.taps[static_cast<std::size_t>(y)];
    if (down_.copies)
      std::memcpy(out.row(y), rows.row(tap.first), out.stride());
    else
      kernels_.down(rows.pixels, rows.stride, tap, down_.weights.data(), out.stride(), out.row(y));
  }
}

void Resampler::run_across(const PictureView& source) {
  const std::size_t source_bytes = static_cast<std::size_t>(source.extent.width) * kChannels;
  auto* const columns = reinterpret_cast<std::uint8_t*>(columns_.have(source_bytes * kRowsAtOnce));
  auto* const scaled =
      reinterpret_cast<std::uint8_t*>(scaled_.have(between_.stride() * kRowsAtOnce));
  for (int y = 0; y < source.extent.height; y += kRowsAtOnce) {
    // If fewer rows are left, the last one is used again.
    std::array<const std::uint8_t*, kRowsAtOnce> from;
    std::array<std::uint8_t*, kRowsAtOnce> to;
    for (int i = 0; i < kRowsAtOnce; ++i) {
      const int row = std::min(y + i, source.extent.height - 1);
      from[static_cast<std::size_t>(i)] = source.row(row);
      to[static_cast<std::size_t>(i)] = between_.row(row);
    }
    kernels_.to_columns(from.data(), source_bytes, columns);
    kernels_.across(columns, across_.taps, across_.weights.data(), scaled);
    kernels_.to_rows(scaled, between_.stride(), to.data());
  }
}

}  // namespace batchflow::prepare
