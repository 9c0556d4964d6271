#include "runtime/prepare/pad.h"

#include <algorithm>

namespace batchflow::prepare {
namespace {

void put(std::uint8_t* out, int x, const std::uint8_t* pixel) {
  std::memcpy(out + static_cast<std::size_t>(x) * kChannels, pixel, kChannels);
}

void pad_row(const Pad& pad, const PictureView& picture, int y, std::uint8_t* out) {
  const Box& box = pad.box;
  const bool constant = pad.style.mode == PadMode::constant;
  const int width = picture.extent.width, height = picture.extent.height;
  // Columns of the result that the picture has: [left, right).
  int left = std::clamp(-box.x, 0, box.width), right = std::clamp(width - box.x, left, box.width);
  const bool outside = y < 0 || y >= height;
  if (constant && outside) left = right = box.width;
  const std::uint8_t* const row =
      picture.row(outside && !constant ? source_of(y, height, pad.style.mode)
                  : outside            ? 0
                                       : y);
  const auto put_outside = [&](int x) {
    if (constant) return put(out, x, pad.style.fill.data());
    put(out, x,
        row + static_cast<std::size_t>(source_of(box.x + x, width, pad.style.mode)) * kChannels);
  };
  for (int x = 0; x < left; ++x) put_outside(x);
  if (left < right)
    std::memcpy(out + static_cast<std::size_t>(left) * kChannels,
                row + static_cast<std::size_t>(box.x + left) * kChannels,
                static_cast<std::size_t>(right - left) * kChannels);
  for (int x = right; x < box.width; ++x) put_outside(x);
}

}  // namespace

Box padded(Extent2 picture, const Padding& padding) {
  return {-padding.left, -padding.top, picture.width + padding.left + padding.right,
          picture.height + padding.top + padding.bottom};
}

int source_of(int at, int size, PadMode mode) {
  if (at >= 0 && at < size) return at;
  if (mode == PadMode::edge || size == 1) return at < 0 ? 0 : size - 1;
  // Mirrored again and again, where it is padded by more than it has.
  const int period = mode == PadMode::reflect ? 2 * (size - 1) : 2 * size;
  const int rest = (at % period + period) % period;
  if (rest < size) return rest;
  return mode == PadMode::reflect ? period - rest : period - 1 - rest;
}

void pad(const Pad& pad, const PictureView& picture, PictureBuffer& out) {
  out.reset(pad.box.extent());
  for (int y = 0; y < pad.box.height; ++y) pad_row(pad, picture, pad.box.y + y, out.row(y));
}

}  // namespace batchflow::prepare
