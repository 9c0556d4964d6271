#include "runtime/protocol/frame.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace batchflow::protocol {

std::array<std::byte, kFrameLength> frame_length(std::size_t bytes) {
  BF_CHECK(bytes > 0 && bytes <= kFrameMost);
  std::array<std::byte, kFrameLength> length;
  for (std::size_t i = 0; i < kFrameLength; ++i)
    length[i] = static_cast<std::byte>(bytes >> (8 * i));
  return length;
}

std::span<std::byte> FrameCutter::room() {
  constexpr std::size_t kAtOnce = std::size_t{1} << 16;
  if (broken_) return {};
  if (filled_ < kFrameLength) return std::span(length_).subspan(filled_);
  const std::size_t had = filled_ - kFrameLength;
  body_.resize(std::min(bytes_, had + kAtOnce));
  return std::as_writable_bytes(std::span(body_)).subspan(had);
}

void FrameCutter::filled(std::size_t bytes) {
  const bool had_length = filled_ >= kFrameLength;
  filled_ += bytes;
  if (had_length || filled_ < kFrameLength) return;
  BF_CHECK(filled_ == kFrameLength);
  bytes_ = 0;
  for (std::size_t i = 0; i < kFrameLength; ++i)
    bytes_ |= std::to_integer<std::size_t>(length_[i]) << (8 * i);
  broken_ = bytes_ == 0 || bytes_ > kFrameMost;
}

std::optional<std::string> FrameCutter::take() {
  if (broken_ || filled_ < kFrameLength || filled_ - kFrameLength < bytes_) return std::nullopt;
  filled_ = 0;
  return std::exchange(body_, {});
}

}  // namespace batchflow::protocol
