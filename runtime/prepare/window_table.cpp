#include "runtime/prepare/window_table.h"

#include <algorithm>
#include <cstring>
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
static_assert(kTapsByDigits < kTapsOfOne);
// The digits of a window, in numbers of 32 bits.
constexpr std::size_t kDigitNumbers = kDigits * kWindow / kNumber;

constexpr int parts(int all, int part) {
  return all / part + (all % part > 0 ? 1 : 0);
}

struct Shape {
  bool two = true;  // the pixels of a group share windows
  int each = 0;     // windows of a group
  int taps = 0;     // of a window

  // The first taps of a group take so many bytes at most, and a pixel has so many taps. A window
  // has `most` of them at most. More bytes or taps never take fewer windows.
  Shape(int bytes, int count, int most = kTapsOfOne) {
    const int together = std::min(most, taps_of_two(bytes)), of_one = parts(count, most);
    two = together > 0 && parts(count, together) <= kPixelsOfGroup * of_one;
    const int windows = two ? parts(count, together) : of_one;
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
  const int bytes = bytes_of_two(-parts(from, to)), count = static_cast<int>(taps_most);
  const Shape shape(bytes, count), of_digits(bytes, count, kTapsByDigits);
  const auto all = [&](const Shape& one) {
    return memory::counted_product(row_bytes(pixels) / kGroup, static_cast<Bytes>(one.each));
  };
  const Bytes numbers = static_cast<Bytes>(shape.taps) * kGroup;
  const Bytes digits = memory::counted_product(pixels + kTapsByDigits, taps_most * kDigits);
  return {memory::counted_product(std::max(all(shape), all(of_digits)), sizeof(Window)),
          std::max(memory::counted_product(all(shape), numbers * kNumber),
                   memory::counted_sum(
                       memory::counted_product(all(of_digits), kDigitNumbers * kNumber), digits))};
}

std::size_t WindowTable::weights_each() const {
  return form_ == WindowForm::digits ? kDigitNumbers : static_cast<std::size_t>(taps_) * kGroup;
}

void WindowTable::plan(std::span<const Taps> taps, const std::int32_t* weights,
                       std::size_t source_bytes, WindowForm form) {
  form_ = form;
  each_ = taps_ = 0;
  windows_.clear();
  weights_.clear();
  if (source_bytes < kWindow || source_bytes > std::numeric_limits<std::uint32_t>::max()) return;
  int count = 0, first_bytes = bytes_of_two(0);
  for (std::size_t i = 0; i < taps.size(); ++i) {
    count = std::max(count, taps[i].count);
    if (i > 0) first_bytes = std::max(first_bytes, bytes_of_two(taps[i].first - taps[i - 1].first));
  }
  const Shape shape(first_bytes, count, form == WindowForm::digits ? kTapsByDigits : kTapsOfOne);
  each_ = shape.each;
  taps_ = shape.taps;
  source_bytes_ = source_bytes;
  count_ = count;
  const std::size_t groups = row_bytes(taps.size()) / kGroup;
  windows_.resize(groups * static_cast<std::size_t>(each_));
  weights_.resize(windows_.size() * weights_each());
  if (form == WindowForm::digits) {
    std::size_t last = 0;  // all pixels may have the same weights
    for (const Taps& one : taps) last = std::max(last, one.at);
    split_weights(weights, last + static_cast<std::size_t>(count));
  }
  std::size_t window = 0, byte = 0;
  for (std::size_t group = 0; group < groups; ++group) {
    Group all;
    std::size_t of_first = 0;  // bytes of the first pixel
    for (std::size_t i = 0; i < kGroup; ++i, ++byte) {
      const std::size_t pixel = byte / kPixel;
      if (pixel == (byte - i) / kPixel) ++of_first;
      if (pixel >= taps.size()) continue;
      all[i] = {weights + taps[pixel].at,
                kPixel * static_cast<std::size_t>(taps[pixel].first) + byte % kPixel,
                taps[pixel].at};
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
  if (form_ == WindowForm::digits) return set_digits(index, group, tap, begin);
  std::int32_t* const to = &weights_[index * weights_each()];
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

// A loop over all, since it is done for each picture.
void WindowTable::split_weights(const std::int32_t* weights, std::size_t count) {
  digits_each_ = count + kTapsByDigits;  // four are read at once
  digits_.clear();
  digits_.resize(kDigits * digits_each_);
  std::int8_t *const high = digits_.data(), *const middle = high + digits_each_,
                     *const low = middle + digits_each_;
  for (std::size_t i = 0; i < count; ++i) {
    const auto digits = digits_of(weights[i]);
    high[i] = digits[0];
    middle[i] = digits[1];
    low[i] = digits[2];
  }
}

void WindowTable::set_digits(std::size_t index, const Group& group, int tap, std::size_t begin) {
  // Four bytes as a number: the first one is the lowest.
  constexpr std::uint32_t each = 0x01010101, further = 0x09060300;
  static_assert(kPixel == 3);
  Window& window = windows_[index];
  auto* const to = reinterpret_cast<std::uint8_t*>(&weights_[index * weights_each()]);
  const int count = std::clamp(count_ - tap, 0, taps_);
  const std::uint32_t there = count == kTapsByDigits ? ~0u : (1u << (8 * count)) - 1;
  const std::size_t ahead = kPixel * static_cast<std::size_t>(tap);
  for (std::size_t i = 0; i < kGroup; ++i) {
    if (!group[i].weights || count == 0) continue;
    // What lies beyond the window has no weight, wherever it is.
    const std::size_t place = std::min(group[i].at + ahead - begin, kWindow);
    const std::uint32_t places = static_cast<std::uint32_t>(place) * each + further;
    std::memcpy(window.first + i * kGroup, &places, kGroup);
    for (std::size_t d = 0; d < kDigits; ++d) {
      std::uint32_t four = 0;
      std::memcpy(
          &four, &digits_[d * digits_each_ + group[i].first_weight + static_cast<std::size_t>(tap)],
          kGroup);
      four &= there;
      std::memcpy(to + d * kWindow + i * kGroup, &four, kGroup);
    }
  }
}

void WindowTable::drop() {
  memory::drop(windows_);
  memory::drop(weights_);
}

}  // namespace batchflow::prepare
