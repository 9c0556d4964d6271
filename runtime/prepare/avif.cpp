// AVIF by libavif. Of a moving picture the first frame is decoded. As Pillow does, it does not turn
// or cut pictures as their file says.
#include <avif/avif.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/prepare/whole_decoder.h"

namespace batchflow::prepare {
namespace {

constexpr std::uint32_t kImagesMost = 10'000;  // of a moving picture
// Each frame costs time in proportion to the picture, and may take only a few bytes.
constexpr int kFramesMost = DecodeLimits::kScansMost;

struct AvifDestroy {
  void operator()(avifDecoder* decoder) const { avifDecoderDestroy(decoder); }
};

// How many frames there are in data of AV1, or -1 where it is something else.
int count_frames(std::span<const std::byte> data) {
  constexpr int kFrameHead = 3, kFrame = 6;
  constexpr int kUnitsMost = 4096;  // of each that it does not know, the decoder may write a line
  int frames = 0, units = 0;
  for (std::size_t at = 0; at < data.size();) {
    const int head = std::to_integer<int>(data[at++]);
    const int type = head >> 3 & 15;
    const bool is_extended = (head & 4) != 0, says_size = (head & 2) != 0;
    if ((head & 0x81) != 0 || ++units > kUnitsMost) return -1;
    at += is_extended ? 1 : 0;
    if (at > data.size()) return -1;
    std::uint64_t size = data.size() - at;  // of the last one it may not be said
    if (says_size) {
      size = 0;
      for (int shift = 0;; shift += 7) {
        if (at >= data.size() || shift > 28) return -1;
        const auto byte = std::to_integer<std::uint64_t>(data[at++]);
        size |= (byte & 127) << shift;
        if (byte < 128) break;
      }
    }
    if (size > data.size() - at) return -1;
    at += size;
    frames += type == kFrameHead || type == kFrame ? 1 : 0;
  }
  return frames;
}

// Where the library reads from. While it decodes, it reads what it gives to its decoder of AV1.
struct AvifSource {
  avifIO io{};
  std::span<const std::byte> bytes;
  bool counts_frames = false;
  int frames = 0;
  std::string problem;

  void begin(std::span<const std::byte> from) {
    io = {};
    io.read = read;
    io.sizeHint = from.size();
    io.persistent = AVIF_TRUE;
    io.data = this;
    bytes = from;
    counts_frames = false;
    frames = 0;
    problem.clear();
  }

  static avifResult read(avifIO* io, std::uint32_t flags, std::uint64_t offset, std::size_t size,
                         avifROData* out) {
    AvifSource& self = *static_cast<AvifSource*>(io->data);
    if (flags != 0 || offset > self.bytes.size()) return AVIF_RESULT_IO_ERROR;
    const auto part = self.bytes.subspan(offset, std::min(size, self.bytes.size() - offset));
    out->data = reinterpret_cast<const std::uint8_t*>(part.data());
    out->size = part.size();
    if (!self.counts_frames) return AVIF_RESULT_OK;
    const int found = count_frames(part);
    self.frames += std::max(found, 0);
    if (found < 0) self.problem = "its data is not that of AV1";
    if (self.frames > kFramesMost) self.problem = fmt::format("more than {} frames", kFramesMost);
    return self.problem.empty() ? AVIF_RESULT_OK : AVIF_RESULT_DECODE_COLOR_FAILED;
  }
};

class AvifDecoder final : public WholeDecoder {
 public:
  bool open(std::span<const std::byte> bytes, const DecodeLimits& limits) override {
    begin();
    end();
    decoder_.reset(avifDecoderCreate());
    if (!decoder_) return has_no_memory();
    decoder_->maxThreads = 1;
    decoder_->ignoreExif = decoder_->ignoreXMP = AVIF_TRUE;
    decoder_->imageCountLimit = kImagesMost;
    // As Pillow does.
    decoder_->strictFlags &= ~std::uint32_t{AVIF_STRICT_CLAP_VALID | AVIF_STRICT_PIXI_REQUIRED};
    source_.begin(bytes);
    avifDecoderSetIO(decoder_.get(), &source_.io);
    if (const avifResult result = avifDecoderParse(decoder_.get()); result != AVIF_RESULT_OK)
      return fail(result);
    const avifImage& image = *decoder_->image;
    if (!take_extent(image.width, image.height, limits)) return false;
    if (decoder_->alphaPresent && image.alphaPremultiplied)
      return say("an AVIF with colours multiplied by alpha");
    // So frames larger than the file says are refused.
    decoder_->imageSizeLimit = static_cast<std::uint32_t>(std::max<Bytes>(pixels(), kPixelsLeast));
    return true;
  }

  // The library's frames, what it keeps of their blocks, and the pixels with alpha.
  Bytes needs(const Box&) const override {
    constexpr Bytes kHeadMost = Bytes{12} << 20, kOfPixel = 24, kOfDeepPixel = 40;
    return memory::counted_sum(
        kHeadMost,
        memory::counted_product(pixels(), decoder_->image->depth > 8 ? kOfDeepPixel : kOfPixel));
  }

  Box decode(const Box&, PictureBuffer& out) override {
    out.reset(extent());
    source_.counts_frames = true;
    if (const avifResult result = avifDecoderNextImage(decoder_.get()); result != AVIF_RESULT_OK) {
      fail(result);
      return {};
    }
    avifImage& image = *decoder_->image;
    if (static_cast<int>(image.width) != extent().width ||
        static_cast<int>(image.height) != extent().height) {
      say("its frame is not as large as its header says");
      return {};
    }
    // Else the library would multiply the colours by it.
    avifImageFreePlanes(&image, AVIF_PLANES_A);
    avifRGBImage rgb;
    avifRGBImageSetDefaults(&rgb, &image);
    rgb.depth = 8;
    rgb.format = AVIF_RGB_FORMAT_RGBA;
    rgb.rowBytes = image.width * kStored;
    rgb.pixels = reinterpret_cast<std::uint8_t*>(rgba_.have(pixels() * kStored));
    if (const avifResult result = avifImageYUVToRGB(&image, &rgb); result != AVIF_RESULT_OK) {
      fail(result);
      return {};
    }
    const std::uint8_t* from = rgb.pixels;
    std::uint8_t* to = out.pixels();
    for (Bytes i = 0; i < pixels(); ++i, from += kStored, to += kChannels)
      std::memcpy(to, from, kChannels);
    return whole(extent());
  }

  void end() override { decoder_.reset(); }
  Bytes held() const override { return rgba_.bytes(); }
  void drop() override { rgba_.drop(); }

 private:
  static constexpr std::uint32_t kStored = 4;
  // Frames are larger than small pictures: their sides are multiples of 8.
  static constexpr Bytes kPixelsLeast = 1 << 16;

  bool fail(avifResult result) {
    if (!source_.problem.empty()) return say(source_.problem);
    if (result == AVIF_RESULT_OUT_OF_MEMORY) return has_no_memory();
    if (result == AVIF_RESULT_TRUNCATED_DATA) return ends_early();
    const std::string_view more = decoder_->diag.error;
    return say(fmt::format("{}{}{}", avifResultToString(result), more.empty() ? "" : ": ", more));
  }

  AvifSource source_;  // outlives the decoder that reads from it
  std::unique_ptr<avifDecoder, AvifDestroy> decoder_;
  memory::ScratchMemory rgba_;
};

}  // namespace

std::unique_ptr<Decoder> make_avif_decoder() {
  return std::make_unique<AvifDecoder>();
}

}  // namespace batchflow::prepare
