// How frames are turned before they are shown. A telephone that is held upright writes frames that
// lie on their side, and a matrix in the file that says so.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace batchflow::video {

// First rows become columns; then left becomes right, then above becomes below.
struct Turn {
  static constexpr std::uint32_t kKinds = 8;

  bool transposed = false, mirrored = false, flipped = false;

  // As a number below kKinds, and from it.
  std::uint32_t number() const {
    return (transposed ? 1U : 0U) + (mirrored ? 2U : 0U) + (flipped ? 4U : 0U);
  }
  static Turn from_number(std::uint32_t number) {
    return {(number & 1) != 0, (number & 2) != 0, (number & 4) != 0};
  }
  bool operator==(const Turn&) const = default;
};

// A file's display matrix m: it shows pixel (x, y) at (m[0] x + m[3] y, m[1] x + m[4] y), as far as
// turns go.
using DisplayMatrix = std::array<std::int32_t, 9>;
// Clockwise, from -180 to 180. Null: the matrix makes a frame a line or a point.
std::optional<double> turned_by_degrees(const DisplayMatrix& matrix);
// As ffmpeg turns frames: by quarters, with or without a mirror, and not at all by a matrix that
// makes a line. Null: by another angle.
std::optional<Turn> turn_of(const DisplayMatrix& matrix);

// Pixels of one, two or three bytes each; a row begins `stride` bytes behind the one before.
struct Plane {
  const std::uint8_t* pixels = nullptr;
  std::ptrdiff_t stride = 0;
  std::uint32_t width = 0, height = 0;
};
// Writes the plane, turned, to `to`, which overlaps it nowhere.
void turn_plane(const Plane& from, std::size_t pixel_bytes, Turn turn, std::uint8_t* to,
                std::ptrdiff_t stride);

}  // namespace batchflow::video
