#include "runtime/prepare/window_table.h"

#include <algorithm>
#include <limits>

namespace batchflow::prepare {
namespace {

constexpr std::size_t kWindow = Window::kBytes, kGroup = Window::kGroup, kPixel = 3,
                      kNumber = sizeof(std::int32_t);
// A group has bytes of so many pixels.
constexpr int kPixelsOfGroup = 2;

// How many bytes lie from the first one of a group to the last one, both of their first taps, if
// the second pixel's first tap lies `ahead` pixels beyond that of the first one. More than a window
// has is all the same.
int bytes_of_two(int ahead) {
  constexpr int pixel = static_cast<int>(kPixel), most = Window::kBytes;
  ahead = std::clamp(ahead, -most, most);
  return ahead > 0 ? pixel * ahead + 1 : pixel * -ahead + pixel;
}

// How many taps of both a window has room for, if their first ones take so many bytes.
int taps_of_two(int bytes) {
  const int rest = Window::kBytes - bytes;
  return rest < 0 ? 0 : 1 + rest / static_cast<int>(kPixel);
}
// Of one pixel.
constexpr int kTapsOfOne = static_cast<int>(kWindow / kPixel);
static_assert(kTapsOfOne == Windows::kTapsMost);

constexpr int parts(int all, int part) {
  return all / part + (all % part > 0 ? 1 : 0);
}

struct Shape {
  bool two = true;  // the pixels of a group share windows
  int each = 0;     // windows of a group
  int taps = 0;     // of a window

  // The first taps of a group take so many bytes at most, and a pixel has so many taps.
  Shape(int bytes, int count) : two(taps_of_two(bytes) > 0) {
    const int windows = parts(count, two ? taps_of_two(bytes) : kTapsOfOne);
    taps = parts(count, windows);
    each = two ? windows : kPixelsOfGroup * windows;
  }
};

}  // namespace

std::size_t WindowTable::row_bytes(std::size_t pixels) {
  return (pixels * kPixel + kWindow - 1) / kWindow * kWindow;
}

WindowTable::Needs WindowTable::needs(int from, int to, std::size_t pixels, Bytes taps_most) {
  // A picture that is flipped takes most.
  const Shape shape(bytes_of_two(-parts(from, to)), static_cast<int>(taps_most));
  const auto each = static_cast<Bytes>(shape.each), taps = static_cast<Bytes>(shape.taps);
  const Bytes windows = memory::counted_product(row_bytes(pixels) / kGroup, each);
  return {memory::counted_product(windows, sizeof(Window)),
          memory::counted_product(windows, taps * kGroup * sizeof(std::int32_t))};
}

void WindowTable::plan(std::span<const Taps> taps, const std::int32_t* weights,
                       std::size_t source_bytes) {
  each_ = taps_ = 0;
  windows_.clear();
  weights_.clear();
  if (source_bytes < kWindow || source_bytes > std::numeric_limits<std::uint32_t>::max()) return;
  int count = 0, first_bytes = bytes_of_two(0);
  for (std::size_t i = 0; i < taps.size(); ++i) {
    count = std::max(count, taps[i].count);
    if (i > 0) first_bytes = std::max(first_bytes, bytes_of_two(taps[i].first - taps[i - 1].first));
  }
  const Shape shape(first_bytes, count);
  each_ = shape.each;
  taps_ = shape.taps;
  source_bytes_ = source_bytes;
  count_ = count;
  const std::size_t groups = row_bytes(taps.size()) / kGroup;
  windows_.resize(groups * static_cast<std::size_t>(each_));
  weights_.resize(windows_.size() * static_cast<std::size_t>(taps_) * kGroup);
  std::size_t window = 0, byte = 0;
  for (std::size_t group = 0; group < groups; ++group) {
    Group all;
    std::size_t of_first = 0;  // bytes of the first pixel
    for (std::size_t i = 0; i < kGroup; ++i, ++byte) {
      const std::size_t pixel = byte / kPixel;
      if (pixel == (byte - i) / kPixel) ++of_first;
      if (pixel >= taps.size()) continue;
      all[i] = {weights + taps[pixel].at,
                kPixel * static_cast<std::size_t>(taps[pixel].first) + byte % kPixel};
    }
    if (shape.two) {
      for (int i = 0; i < each_; ++i) set(window++, all, i * taps_);
      continue;
    }
    for (const bool is_first : {true, false}) {
      Group one = all;
      for (std::size_t i = 0; i < kGroup; ++i)
        if ((i < of_first) != is_first) one[i] = {};
      for (int i = 0; i < each_ / kPixelsOfGroup; ++i) set(window++, one, i * taps_);
    }
  }
}

void WindowTable::set(std::size_t index, const Group& group, int tap) {
  const std::size_t ahead = kPixel * static_cast<std::size_t>(tap);
  std::size_t begin = source_bytes_ - kWindow;  // it does not reach beyond the row
  for (const Byte& byte : group)
    if (byte.weights) begin = std::min(begin, byte.at + ahead);
  Window& window = windows_[index];
  window.at = static_cast<std::uint32_t>(begin);
  std::int32_t* const to = &weights_[index * static_cast<std::size_t>(taps_) * kGroup];
  const int count = std::min(taps_, count_ - tap);
  for (std::size_t i = 0; i < kGroup; ++i) {
    if (!group[i].weights) continue;
    // A pixel at the edge has fewer taps than others. Those that it lacks have no weight, wherever
    // they are.
    window.first[i * kNumber] =
        static_cast<std::uint8_t>(std::min(group[i].at + ahead - begin, kWindow));
    for (int k = 0; k < count; ++k)
      to[static_cast<std::size_t>(k) * kGroup + i] = group[i].weights[tap + k];
  }
}

void WindowTable::drop() {
  memory::drop(windows_);
  memory::drop(weights_);
}

}  // namespace batchflow::prepare
