// Cuts bytes that arrive one after another into frames. A frame is four bytes of length,
// little-endian, and then as many bytes as these say.
//
// The cutter knows no socket. A reader puts the next bytes into `room`. The room never reaches
// beyond the end of the frame, so descriptors that come with some bytes belong to the same frame as
// the bytes. Memory grows with the bytes that have come, not with what a length claims.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace batchflow::protocol {

inline constexpr std::size_t kFrameMost = std::size_t{1} << 20;
inline constexpr std::size_t kFrameLength = 4;

std::array<std::byte, kFrameLength> frame_length(std::size_t bytes);

class FrameCutter {
 public:
  // Empty when a whole frame waits to be taken, or the bytes are broken.
  std::span<std::byte> room();
  // The reader has put `bytes` into room(). REQUIRES: bytes <= room().size()
  void filled(std::size_t bytes);
  std::optional<std::string> take();
  // A length was zero or beyond kFrameMost, so that what follows cannot be understood.
  bool broken() const { return broken_; }
  bool in_a_frame() const { return filled_ != 0; }
  // The memory that an unfinished frame takes.
  std::size_t bytes_held() const { return body_.capacity() > 15 ? body_.capacity() : 0; }

 private:
  std::array<std::byte, kFrameLength> length_{};
  std::size_t filled_ = 0;  // of length and body
  std::size_t bytes_ = 0;   // of the body, once the length is known
  std::string body_;
  bool broken_ = false;  // what came is no frame
};

}  // namespace batchflow::protocol
