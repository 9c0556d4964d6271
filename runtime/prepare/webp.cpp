// WebP by libwebp. Of a moving picture the first frame is decoded. Alpha is left out, so it is not
// decoded either.
#include <webp/decode.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "runtime/prepare/stored_numbers.h"
#include "runtime/prepare/webp_codes.h"
#include "runtime/prepare/whole_decoder.h"

namespace batchflow::prepare {
namespace {

constexpr std::size_t kRiffHead = 12, kChunkHead = 8, kFrameHead = 16, kExtendedHead = 10;
constexpr std::uint32_t kMoves = 2;  // a flag of the extended header
// Of one group of codes, with its part of the tables.
constexpr Bytes kGroupMost = 21 * 1024;

// The chunks in a part of a file, one after the other.
class RiffChunks {
 public:
  explicit RiffChunks(std::span<const std::byte> part) : part_(part) {}

  // False at the end, and where the next chunk is not there as a whole.
  bool next() {
    if (part_.size() < kChunkHead) return false;
    const std::size_t size = little_number(part_, 4, 4);
    if (size > part_.size() - kChunkHead) return false;
    name_ = {reinterpret_cast<const char*>(part_.data()), 4};
    content_ = part_.subspan(kChunkHead, size);
    part_ = part_.subspan(std::min(part_.size(), kChunkHead + size + size % 2));
    return true;
  }
  // The next chunk with pixels, if there is one.
  bool find_pixels() {
    while (next())
      if (name_ == "VP8 " || name_ == "VP8L") return true;
    return false;
  }
  bool find(std::string_view name) {
    while (next())
      if (name_ == name) return true;
    return false;
  }

  std::string_view name() const { return name_; }
  std::span<const std::byte> content() const { return content_; }

 private:
  std::span<const std::byte> part_, content_;
  std::string_view name_;
};

class WebpDecoder final : public WholeDecoder {
 public:
  bool open(std::span<const std::byte> bytes, const DecodeLimits& limits) override {
    begin();
    frame_ = {};
    groups_ = 0;
    if (bytes.size() < kRiffHead + kChunkHead) return ends_early();
    const std::size_t size = little_number(bytes, 4, 4);
    if (size < 4 || size > bytes.size() - kChunkHead) return ends_early();
    RiffChunks chunks(bytes.subspan(kRiffHead, size - 4));
    if (!chunks.next()) return ends_early();
    const bool is_extended = chunks.name() == "VP8X";
    if (is_extended) {
      if (!find_extended(chunks, limits)) return false;
    } else if (chunks.name() != "VP8 " && chunks.name() != "VP8L") {
      return say("a WebP without pixels");
    }
    pixels_ = chunks.content();
    int width = 0, height = 0;
    if (WebPGetInfo(data(), pixels_.size(), &width, &height) == 0 || width < 1 || height < 1)
      return say("its first pixels are damaged");
    if (!is_extended) {
      if (!take_extent(static_cast<std::uint64_t>(width), static_cast<std::uint64_t>(height),
                       limits))
        return false;
      frame_ = whole(extent());
    } else if (Extent2{width, height} != frame_.extent()) {
      return say(fmt::format("{} x {} pixels in a frame of {} x {}", width, height, frame_.width,
                             frame_.height));
    }
    if (chunks.name() != "VP8L") return true;
    const auto groups = webp_code_groups(pixels_);
    if (!groups) return say("its codes are damaged");
    groups_ = *groups;
    return true;
  }

  // For a lossless picture, the library keeps all of it, the pictures that belong to it, and codes.
  Bytes needs(const Box&) const override {
    constexpr Bytes kHeadMost = Bytes{1} << 20;
    const Bytes rows = memory::counted_product(static_cast<Bytes>(frame_.width), 256);
    if (groups_ == 0) return kHeadMost + rows;
    const Bytes frame = memory::counted_product(static_cast<Bytes>(frame_.width),
                                                static_cast<Bytes>(frame_.height));
    return memory::counted_sum(kHeadMost + rows + groups_ * kGroupMost,
                               memory::counted_product(frame, 6));
  }

  Box decode(const Box&, PictureBuffer& out) override {
    out.reset(extent());
    if (frame_ != whole(extent()))
      std::memset(out.pixels(), 0, out.stride() * static_cast<std::size_t>(extent().height));
    WebPDecoderConfig config;
    if (WebPInitDecoderConfig(&config) == 0) {
      say("this libwebp is not the one that the program was built with");
      return {};
    }
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = out.row(frame_.y) + static_cast<std::size_t>(frame_.x) * kChannels;
    config.output.u.RGBA.stride = static_cast<int>(out.stride());
    config.output.u.RGBA.size = out.stride() * static_cast<std::size_t>(frame_.height - 1) +
                                static_cast<std::size_t>(frame_.width) * kChannels;
    const VP8StatusCode status = WebPDecode(data(), pixels_.size(), &config);
    WebPFreeDecBuffer(&config.output);
    if (status == VP8_STATUS_OK) return whole(extent());
    if (status == VP8_STATUS_OUT_OF_MEMORY)
      has_no_memory();
    else if (status == VP8_STATUS_SUSPENDED || status == VP8_STATUS_NOT_ENOUGH_DATA)
      ends_early();
    else
      say(fmt::format("its pixels are damaged (libwebp's error {})", static_cast<int>(status)));
    return {};
  }

 private:
  const std::uint8_t* data() const { return reinterpret_cast<const std::uint8_t*>(pixels_.data()); }

  static std::uint32_t number(std::span<const std::byte> bytes, std::size_t at) {
    return little_number(bytes, at, 3);
  }

  // Goes to the chunk with the pixels of the picture, or of its first frame.
  bool find_extended(RiffChunks& chunks, const DecodeLimits& limits) {
    const auto head = chunks.content();
    if (head.size() < kExtendedHead) return ends_early();
    if (!take_extent(number(head, 4) + 1, number(head, 7) + 1, limits)) return false;
    frame_ = whole(extent());
    if ((little_number(head, 0, 1) & kMoves) == 0) return chunks.find_pixels() || ends_early();
    if (!chunks.find("ANMF")) return ends_early();
    const auto frame = chunks.content();
    if (frame.size() < kFrameHead) return ends_early();
    // Each is below 2^25.
    frame_.x = static_cast<int>(2 * number(frame, 0));
    frame_.y = static_cast<int>(2 * number(frame, 3));
    frame_.width = static_cast<int>(number(frame, 6) + 1);
    frame_.height = static_cast<int>(number(frame, 9) + 1);
    if (frame_.x + frame_.width > extent().width || frame_.y + frame_.height > extent().height)
      return say("a WebP with a frame beyond its edges");
    chunks = RiffChunks(frame.subspan(kFrameHead));
    return chunks.find_pixels() || ends_early();
  }

  std::span<const std::byte> pixels_;  // as they are encoded
  Box frame_;                          // where they are in the picture
  std::uint32_t groups_ = 0;           // of codes, of a lossless picture
};

}  // namespace

std::unique_ptr<Decoder> make_webp_decoder() {
  return std::make_unique<WebpDecoder>();
}

}  // namespace batchflow::prepare
