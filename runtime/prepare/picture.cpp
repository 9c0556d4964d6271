#include "runtime/prepare/picture.h"

#include <array>

namespace batchflow::prepare {
namespace {

constexpr std::uint32_t kMagic = 0x58504642;  // BFPX
using Header = std::array<std::uint32_t, 4>;
static_assert(sizeof(Header) == PictureBuffer::kHeader);

}  // namespace

void PictureBuffer::reset(Extent2 extent) {
  at_ = foreign_ && extent == foreign_extent_ ? foreign_ : memory_.have(bytes(extent));
  extent_ = extent;
}

void write_decoded_header(Extent2 extent, std::byte* out) {
  const Header header = {kMagic, static_cast<std::uint32_t>(extent.width),
                         static_cast<std::uint32_t>(extent.height), kChannels};
  std::memcpy(out, header.data(), sizeof header);
}

void write_decoded(const PictureView& picture, std::byte* out) {
  write_decoded_header(picture.extent, out);
  const std::size_t row_bytes = static_cast<std::size_t>(picture.extent.width) * kChannels;
  std::byte* at = out + PictureBuffer::kHeader;
  for (int y = 0; y < picture.extent.height; ++y, at += row_bytes)
    std::memcpy(at, picture.row(y), row_bytes);
}

bool read_decoded(std::span<const std::byte> bytes, PictureView& picture) {
  Header header;
  if (bytes.size() < sizeof header) return false;
  std::memcpy(header.data(), bytes.data(), sizeof header);
  const auto [magic, width, height, channels] = header;
  if (magic != kMagic || channels != kChannels || width == 0 || height == 0) return false;
  if (width > 0x7fffffff / kChannels || height > 0x7fffffff) return false;
  const std::size_t stride = std::size_t{width} * kChannels;
  if ((bytes.size() - sizeof header) / stride != height ||
      (bytes.size() - sizeof header) % stride != 0)
    return false;
  picture = {reinterpret_cast<const std::uint8_t*>(bytes.data()) + sizeof header,
             stride,
             {static_cast<int>(width), static_cast<int>(height)}};
  return true;
}

}  // namespace batchflow::prepare
