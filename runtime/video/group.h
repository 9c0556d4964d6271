// A group of frames as it is stored: the packets of a video from a key frame on, which decode
// without any others. It has all that a decoder needs, so that it is a sample by itself.
//
// Numbers are little-endian: `BFVG`, then of 32 bits each codec, width, height, frames, turn, bytes
// of the decoder's data, packets; for each packet its bytes (32) and its time (64, signed, in any
// unit); the decoder's data; the packets. Groups come from files and are checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/types.h"
#include "runtime/video/turn.h"

namespace batchflow::video {

enum class Codec : std::uint32_t { h264 = 1, hevc, vp8, vp9, av1, mpeg4, mjpeg };
inline constexpr std::uint32_t kCodecs = 7;

// What one group may have. A sample takes its memory and its time.
inline constexpr std::uint32_t kFramesMost = 4096;
inline constexpr std::uint32_t kSideMost = 8192;
inline constexpr Bytes kGroupMost = Bytes{256} << 20;
inline constexpr std::uint64_t kPixelsMost = std::uint64_t{1} << 32;  // of all frames together
inline constexpr std::size_t kDecoderDataMost = 1 << 20;

struct Packet {
  std::span<const std::byte> bytes;
  std::int64_t time = 0;  // when its frame is shown
};

struct Group {
  Codec codec = Codec::h264;
  std::uint32_t width = 0, height = 0;  // before the turn
  std::uint32_t frames = 0;             // that are shown
  Turn turn;
  std::span<const std::byte> decoder_data;
  std::vector<Packet> packets;  // as they are decoded

  std::uint32_t shown_width() const { return turn.transposed ? height : width; }
  std::uint32_t shown_height() const { return turn.transposed ? width : height; }
  std::uint64_t pixels() const { return std::uint64_t{width} * height * frames; }
  Bytes frame_bytes() const { return Bytes{width} * height * 3; }  // decoded: RGB
};

std::vector<std::byte> encode_group(const Group& group);
// What is wrong with it; empty: nothing. What it points to stays in `bytes`.
std::string_view read_group(std::span<const std::byte> bytes, Group& group);

}  // namespace batchflow::video
