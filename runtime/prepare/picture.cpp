#include "runtime/prepare/picture.h"

#include <array>

namespace batchflow::prepare {
namespace {

constexpr std::uint32_t kMagic = 0x58504642;  // BFPX
using Header = std::array<std::uint32_t, 4>;
static_assert(sizeof(Header) == PictureBuffer::kHeader);

}  // namespace

void PictureBuffer::reset(Extent2 extent) {
  memory_.have(bytes(extent));
  extent_ = extent;
}

void write_decoded(const PictureView& picture, std::vector<std::byte>& out) {
  const Header header = {kMagic, static_cast<std::uint32_t>(picture.extent.width),
                         static_cast<std::uint32_t>(picture.extent.height), kChannels};
  const std::size_t row_bytes = static_cast<std::size_t>(picture.extent.width) * kChannels;
  out.resize(PictureBuffer::bytes(picture.extent));
  std::memcpy(out.data(), header.data(), sizeof header);
  std::byte* at = out.data() + sizeof header;
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
