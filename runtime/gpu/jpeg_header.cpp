#include "runtime/gpu/jpeg_header.h"

#include <algorithm>
#include <cstring>

#include "kernels/picture_batch.h"

namespace batchflow::gpu {
namespace {

// Markers.
constexpr int kStart = 0xd8, kEnd = 0xd9, kScan = 0xda;
constexpr int kBaseline = 0xc0, kSequential = 0xc1, kProgressive = 0xc2;
constexpr int kJfif = 0xe0, kAdobe = 0xee;

bool is_frame(int marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}
bool stands_alone(int marker) {
  return marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7);
}

class Parser {
 public:
  explicit Parser(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::optional<JpegHeader> parse() {
    if (byte(0) != 0xff || byte(1) != kStart) return {};
    std::size_t at = 2;
    while (true) {
      // Libraries skip what stands between segments.
      while (at + 1 < bytes_.size() && !(byte(at) == 0xff && byte(at + 1) != 0)) ++at;
      while (at + 1 < bytes_.size() && byte(at + 1) == 0xff) ++at;
      if (at + 4 > bytes_.size()) return {};
      const int marker = byte(at + 1);
      at += 2;
      if (stands_alone(marker)) continue;
      if (marker == kEnd || marker == kStart) return {};
      const std::size_t length = two(at);
      if (length < 2 || at + length > bytes_.size()) return {};
      const auto segment = bytes_.subspan(at + 2, length - 2);
      if (marker == kScan) return result(segment);
      if (is_frame(marker) && !frame(marker, segment)) return {};
      if (marker == kJfif && begins(segment, "JFIF")) jfif_ = true;
      if (marker == kAdobe && begins(segment, "Adobe") && segment.size() >= 12)
        adobe_ = std::to_integer<int>(segment[11]);
      at += length;
    }
  }

 private:
  struct Component {
    int id, across, down;
  };

  int byte(std::size_t at) const {
    return at < bytes_.size() ? std::to_integer<int>(bytes_[at]) : -1;
  }
  std::size_t two(std::size_t at) const {
    return static_cast<std::size_t>(byte(at) << 8 | byte(at + 1));
  }
  static bool begins(std::span<const std::byte> segment, const char* text) {
    const std::size_t length = std::strlen(text);
    return segment.size() >= length && std::memcmp(segment.data(), text, length) == 0;
  }

  bool frame(int marker, std::span<const std::byte> segment) {
    if (segment.size() < 6 || component_count_ != 0) return false;
    const auto at = [&](std::size_t i) { return std::to_integer<int>(segment[i]); };
    frame_ = marker;
    bits_ = at(0);
    extent_ = {at(3) << 8 | at(4), at(1) << 8 | at(2)};
    component_count_ = at(5);
    if (component_count_ < 1 || component_count_ > 4 ||
        segment.size() < 6 + 3 * static_cast<std::size_t>(component_count_))
      return false;
    for (std::size_t i = 0; i < static_cast<std::size_t>(component_count_); ++i)
      parts_[i] = {at(6 + 3 * i), at(7 + 3 * i) >> 4, at(7 + 3 * i) & 15};
    return extent_.width > 0 && extent_.height > 0;
  }

  // As libjpeg decides what three components are.
  bool is_ycc() const {
    if (jfif_) return true;
    if (adobe_) return *adobe_ != 0;
    return !(parts_[0].id == 'R' && parts_[1].id == 'G' && parts_[2].id == 'B');
  }
  // The usual samplings: the luma whole, and both chromas alike, at most halved each way.
  bool usual_sampling() const {
    const auto [id, across, down] = parts_[0];
    if (across < 1 || across > 2 || down < 1 || down > 2) return false;
    for (int i = 1; i < 3; ++i)
      if (parts_[i].across != 1 || parts_[i].down != 1) return false;
    return true;
  }
  bool has_end() const {
    return bytes_.size() >= 2 && byte(bytes_.size() - 2) == 0xff && byte(bytes_.size() - 1) == kEnd;
  }

  std::optional<JpegHeader> result(std::span<const std::byte> scan) const {
    if (component_count_ == 0) return {};
    JpegHeader header{extent_, only(JpegWay::cpu)};
    const bool colours = component_count_ == 1 || (component_count_ == 3 && is_ycc());
    const bool sequential = frame_ == kBaseline || frame_ == kSequential;
    if (bits_ != 8 || !colours || !(sequential || frame_ == kProgressive) || !has_end())
      return header;
    if (component_count_ == 3 && !usual_sampling()) return header;
    header.ways |= only(JpegWay::host_huffman);
    const bool one_scan = !scan.empty() && std::to_integer<int>(scan[0]) == component_count_;
    if (frame_ == kBaseline && one_scan) header.ways = kEveryJpegWay;
    return header;
  }

  std::span<const std::byte> bytes_;
  kernels::Extent2 extent_;
  int frame_ = 0, bits_ = 0, component_count_ = 0;
  Component parts_[4] = {};
  bool jfif_ = false;
  std::optional<int> adobe_;
};

}  // namespace

std::optional<JpegHeader> read_jpeg_header(std::span<const std::byte> bytes) {
  return Parser(bytes).parse();
}

std::size_t row_bytes(kernels::Extent2 extent) {
  return static_cast<std::size_t>(extent.width) * kernels::kChannels;
}
std::size_t slot_bytes(kernels::Extent2 extent) {
  const std::size_t pixels = row_bytes(extent) * static_cast<std::size_t>(extent.height);
  return (pixels + kernels::kReadSlack + 255) / 256 * 256;
}

}  // namespace batchflow::gpu
