#include "runtime/video/turn.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "core/base/check.h"

namespace batchflow::video {
namespace {

// Rows of a tile, where they become columns, stay in the cache.
constexpr std::uint32_t kTile = 16;

template <std::size_t kBytes>
void turn_pixels(const Plane& from, Turn turn, std::uint8_t* to, std::ptrdiff_t stride) {
  const std::uint32_t width = turn.transposed ? from.height : from.width;
  const std::uint32_t height = turn.transposed ? from.width : from.height;
  std::ptrdiff_t right = kBytes, down = stride;
  if (turn.mirrored) {
    to += (std::ptrdiff_t{width} - 1) * right;
    right = -right;
  }
  if (turn.flipped) {
    to += (std::ptrdiff_t{height} - 1) * down;
    down = -down;
  }
  const std::ptrdiff_t along_row = turn.transposed ? down : right;
  const std::ptrdiff_t along_column = turn.transposed ? right : down;
  for (std::uint32_t top = 0; top < from.height; top += kTile)
    for (std::uint32_t left = 0; left < from.width; left += kTile)
      for (std::uint32_t y = top; y < std::min(top + kTile, from.height); ++y)
        for (std::uint32_t x = left; x < std::min(left + kTile, from.width); ++x)
          std::memcpy(to + x * along_row + y * along_column,
                      from.pixels + y * from.stride + x * kBytes, kBytes);
}

}  // namespace

std::optional<double> turned_by_degrees(const DisplayMatrix& matrix) {
  // A matrix may also stretch frames, one way more than the other.
  const double across = std::hypot(matrix[0], matrix[3]), down = std::hypot(matrix[1], matrix[4]);
  if (across == 0 || down == 0) return std::nullopt;
  return std::atan2(matrix[1] / down, matrix[0] / across) * 180 / std::numbers::pi;
}

std::optional<Turn> turn_of(const DisplayMatrix& matrix) {
  const std::optional<double> degrees = turned_by_degrees(matrix);
  if (!degrees) return Turn{};
  const long quarters = std::lround(*degrees / 90);
  if (std::abs(*degrees - 90.0 * static_cast<double>(quarters)) > 0.5) return std::nullopt;
  if (quarters % 2 != 0) return Turn{true, matrix[3] < 0, matrix[1] < 0};
  return Turn{false, matrix[0] < 0, matrix[4] < 0};
}

void turn_plane(const Plane& from, std::size_t pixel_bytes, Turn turn, std::uint8_t* to,
                std::ptrdiff_t stride) {
  BF_CHECK(pixel_bytes >= 1 && pixel_bytes <= 3);
  if (pixel_bytes == 1) return turn_pixels<1>(from, turn, to, stride);
  if (pixel_bytes == 2) return turn_pixels<2>(from, turn, to, stride);
  turn_pixels<3>(from, turn, to, stride);
}

}  // namespace batchflow::video
