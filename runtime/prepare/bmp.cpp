// BMP without compression: palettes of eight bits, and colours of 24 and 32 bits.
#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/prepare/stored_numbers.h"
#include "runtime/prepare/whole_decoder.h"

namespace batchflow::prepare {
namespace {

constexpr std::size_t kBmpFileHead = 14, kBmpHeadLeast = 40;

std::string bmp_compression(std::uint32_t number) {
  constexpr std::array<std::string_view, 6> kNames = {"none",       "RLE8", "RLE4",
                                                      "bit fields", "JPEG", "PNG"};
  return number < kNames.size() ? std::string(kNames[number]) : fmt::format("number {}", number);
}

class BmpDecoder final : public WholeDecoder {
 public:
  bool open(std::span<const std::byte> bytes, const DecodeLimits& limits) override {
    begin();
    bytes_ = bytes;
    if (bytes.size() < kBmpFileHead + kBmpHeadLeast) return ends_early();
    const std::uint32_t head = number(kBmpFileHead);
    if (head < kBmpHeadLeast || head > 124)
      return say(fmt::format("a BMP with a header of {} bytes: 40 to 124 are decoded", head));
    const auto width = static_cast<std::int32_t>(number(18));
    const auto height = static_cast<std::int32_t>(number(22));
    bits_ = little_number(bytes, 28, 2);
    if (const std::uint32_t compression = number(30); compression != 0)
      return say(fmt::format("a BMP with compression ({}): those without are decoded",
                             bmp_compression(compression)));
    if (bits_ != 8 && bits_ != 24 && bits_ != 32)
      return say(fmt::format("a BMP of {} bits a pixel: 8, 24 and 32 are decoded", bits_));
    if (width < 0) return say("a BMP with a width below 0");
    from_top_ = height < 0;
    if (!take_extent(static_cast<std::uint64_t>(width),
                     static_cast<std::uint64_t>(from_top_ ? -std::int64_t{height} : height),
                     limits))
      return false;
    if (bits_ == 8 && !take_palette(kBmpFileHead + head)) return false;
    at_ = number(10);
    stride_ = (static_cast<Bytes>(width) * bits_ + 31) / 32 * 4;
    const Bytes rows = static_cast<Bytes>(extent().height);
    if (at_ < kBmpFileHead + head) return say("a BMP with pixels inside its header");
    if (at_ > bytes.size() || stride_ * rows > bytes.size() - at_) return ends_early();
    return true;
  }

  Bytes needs(const Box&) const override { return 0; }

  Box decode(const Box&, PictureBuffer& out) override {
    out.reset(extent());
    for (int y = 0; y < extent().height; ++y) {
      const int stored = from_top_ ? y : extent().height - 1 - y;
      const auto* row = reinterpret_cast<const std::uint8_t*>(bytes_.data()) + at_ +
                        static_cast<std::size_t>(stored) * stride_;
      if (!(bits_ == 8 ? write_palette_row(row, out.row(y)) : write_row(row, out.row(y))))
        return {};
    }
    return whole(extent());
  }

 private:
  std::uint32_t number(std::size_t at) const { return little_number(bytes_, at, 4); }

  bool take_palette(std::size_t at) {
    const std::uint32_t said = number(46);
    colours_ = said == 0 ? 256 : said;
    if (colours_ > 256) return say(fmt::format("a BMP with a palette of {} colours", colours_));
    if (bytes_.size() - std::min(bytes_.size(), at) < std::size_t{4} * colours_)
      return ends_early();
    palette_ = reinterpret_cast<const std::uint8_t*>(bytes_.data()) + at;
    return true;
  }

  // Stored are blue, green, red, and a fourth byte where there is one.
  bool write_row(const std::uint8_t* from, std::uint8_t* rgb) const {
    for (int x = 0; x < extent().width; ++x, from += bits_ / 8, rgb += kChannels) {
      rgb[0] = from[2];
      rgb[1] = from[1];
      rgb[2] = from[0];
    }
    return true;
  }
  bool write_palette_row(const std::uint8_t* from, std::uint8_t* rgb) {
    for (int x = 0; x < extent().width; ++x, rgb += kChannels) {
      if (from[x] >= colours_)
        return say(fmt::format("colour {} of a palette of {}", from[x], colours_));
      const std::uint8_t* const colour = palette_ + std::size_t{4} * from[x];
      rgb[0] = colour[2];
      rgb[1] = colour[1];
      rgb[2] = colour[0];
    }
    return true;
  }

  std::span<const std::byte> bytes_;
  std::uint32_t bits_ = 0, colours_ = 0;
  const std::uint8_t* palette_ = nullptr;
  bool from_top_ = false;
  std::size_t at_ = 0;  // of the first row stored
  Bytes stride_ = 0;
};

}  // namespace

std::unique_ptr<Decoder> make_bmp_decoder() {
  return std::make_unique<BmpDecoder>();
}

// The two letters are not much, so the size of the header has to be one that there is.
bool is_bmp(std::span<const std::byte> bytes) {
  if (bytes.size() < kBmpFileHead + 4 || std::memcmp(bytes.data(), "BM", 2) != 0) return false;
  const std::uint32_t head = little_number(bytes, kBmpFileHead, 4);
  return head >= 12 && head <= 124;
}

}  // namespace batchflow::prepare
