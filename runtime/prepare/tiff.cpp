// The first picture of a TIFF: grey, RGB and palettes of eight bits, in strips or tiles, plain or
// compressed without loss. As Pillow does, it turns the picture as the tag for its orientation
// says.
#include <algorithm>
#include <array>
#include <optional>

#include "runtime/prepare/stored_numbers.h"
#include "runtime/prepare/tiff_codes.h"
#include "runtime/prepare/whole_decoder.h"

namespace batchflow::prepare {
namespace {

enum TiffTag : std::uint32_t {
  kWidth = 256,
  kHeight = 257,
  kBits = 258,
  kCompression = 259,
  kPhotometric = 262,
  kFillOrder = 266,
  kStripOffsets = 273,
  kOrientation = 274,
  kSamples = 277,
  kRowsPerStrip = 278,
  kStripBytes = 279,
  kPlanar = 284,
  kPredictor = 317,
  kPalette = 320,
  kTileWidth = 322,
  kTileHeight = 323,
  kTileOffsets = 324,
  kTileBytes = 325,
  kExtraSamples = 338,
  kSampleFormat = 339,
};
constexpr std::array kTiffTags = {kWidth,       kHeight,       kBits,         kCompression,
                                  kPhotometric, kFillOrder,    kStripOffsets, kOrientation,
                                  kSamples,     kRowsPerStrip, kStripBytes,   kPlanar,
                                  kPredictor,   kPalette,      kTileWidth,    kTileHeight,
                                  kTileOffsets, kTileBytes,    kExtraSamples, kSampleFormat};

constexpr std::uint32_t kPlain = 1, kLzw = 5, kDeflate = 8, kDeflateOfAdobe = 32946,
                        kPackBits = 32773;

std::string tiff_compression(std::uint32_t number) {
  switch (number) {
    case 2:
    case 3:
    case 4:
      return "of facsimiles";
    case 6:
    case 7:
      return "JPEG";
    case 34925:
      return "LZMA";
    case 50000:
      return "Zstandard";
    case 50001:
      return "WebP";
    default:
      return fmt::format("number {}", number);
  }
}

std::string tiff_colours(std::uint32_t number) {
  switch (number) {
    case 4:
      return "a mask";
    case 5:
      return "inks (CMYK)";
    case 6:
      return "YCbCr";
    case 8:
    case 9:
    case 10:
      return "Lab";
    default:
      return fmt::format("colours of number {}", number);
  }
}

// The tags above of the first directory, with their numbers.
class TiffTags {
 public:
  // False: see problem().
  bool read(std::span<const std::byte> bytes) {
    bytes_ = bytes;
    fields_ = {};
    if (bytes.size() < 8) return ends_early();
    is_little_ = bytes[0] == std::byte{'I'};
    if (number(2, 2) != 42) return say("a BigTIFF, which is not decoded");
    const std::size_t at = number(4, 4);
    if (at > bytes.size() - 2) return ends_early();
    const std::size_t count = number(at, 2);
    if (count * kEntry > bytes.size() - at - 2) return ends_early();
    for (std::size_t i = 0; i < count; ++i)
      if (!take_entry(at + 2 + i * kEntry)) return false;
    return true;
  }
  const std::string& problem() const { return problem_; }

  std::size_t count(TiffTag tag) const { return field(tag).count; }
  // REQUIRES: i < count(tag)
  std::uint32_t number(TiffTag tag, std::size_t i) const {
    const Field& one = field(tag);
    return number(one.at + i * one.size, one.size);
  }
  std::uint32_t number_or(TiffTag tag, std::uint32_t otherwise) const {
    return count(tag) == 0 ? otherwise : number(tag, 0);
  }
  bool all_are(TiffTag tag, std::uint32_t value) const {
    for (std::size_t i = 0; i < count(tag); ++i)
      if (number(tag, i) != value) return false;
    return true;
  }

 private:
  static constexpr std::size_t kEntry = 12;
  struct Field {
    std::size_t at = 0, count = 0, size = 0;
  };

  const Field& field(TiffTag tag) const {
    return fields_[static_cast<std::size_t>(std::find(kTiffTags.begin(), kTiffTags.end(), tag) -
                                            kTiffTags.begin())];
  }
  std::uint32_t number(std::size_t at, std::size_t size) const {
    return is_little_ ? little_number(bytes_, at, size) : big_number(bytes_, at, size);
  }

  bool take_entry(std::size_t at) {
    const auto* const tag = std::find(kTiffTags.begin(), kTiffTags.end(), number(at, 2));
    if (tag == kTiffTags.end()) return true;
    Field& one = fields_[static_cast<std::size_t>(tag - kTiffTags.begin())];
    if (one.count != 0) return say(fmt::format("its tag {} is there twice", number(at, 2)));
    const std::uint32_t type = number(at + 2, 2);
    one.size = type == 1 ? 1 : type == 3 ? 2 : type == 4 ? 4 : 0;
    if (one.size == 0) return say(fmt::format("its tag {} has no numbers", number(at, 2)));
    one.count = number(at + 4, 4);
    if (one.count == 0) return say(fmt::format("its tag {} is empty", number(at, 2)));
    one.at = one.count * one.size <= 4 ? at + 8 : number(at + 8, 4);
    if (one.at > bytes_.size() || one.count * one.size > bytes_.size() - one.at)
      return ends_early();
    return true;
  }
  bool say(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }
  bool ends_early() { return say("the data ends early"); }

  std::span<const std::byte> bytes_;
  bool is_little_ = true;
  std::array<Field, kTiffTags.size()> fields_;
  std::string problem_;
};

// Where the pixels of the stored picture go in the picture as it is seen.
struct Placing {
  std::uint8_t* first = nullptr;
  std::ptrdiff_t across = 0, down = 0;  // bytes from a pixel to the next one stored

  std::uint8_t* at(std::uint32_t x, std::uint32_t y) const {
    return first + across * static_cast<std::ptrdiff_t>(x) + down * static_cast<std::ptrdiff_t>(y);
  }
};

class TiffDecoder final : public WholeDecoder {
 public:
  bool open(std::span<const std::byte> bytes, const DecodeLimits& limits) override {
    begin();
    bytes_ = bytes;
    if (!tags_.read(bytes)) return say(tags_.problem());
    return take_size(limits) && take_colours() && take_compression() && take_pieces(limits);
  }

  // A piece, and what the library has.
  Bytes needs(const Box&) const override {
    return memory::counted_sum(kTiffLibraryMost, piece_bytes());
  }

  Box decode(const Box&, PictureBuffer& out) override {
    out.reset(extent());
    const Placing placing = place(out);
    if (pieces_.compression != kPlain) {
      piece_.have(piece_bytes());
      if (!codes_.begin(pieces_)) {
        if (codes_.problem().empty())
          has_no_memory();
        else
          say(codes_.problem());
        return {};
      }
    }
    std::size_t piece = 0;
    for (std::uint32_t y = 0; y < height_; y += pieces_.rows)
      for (std::uint32_t x = 0; x < width_; x += pieces_.width)
        if (!decode_piece(piece++, x, y, placing)) return {};
    return whole(extent());
  }

  void end() override { codes_.end(); }
  Bytes held() const override { return piece_.bytes(); }
  void drop() override { piece_.drop(); }

 private:
  enum class Colours { grey, inverted_grey, palette, rgb };

  bool take_size(const DecodeLimits& limits) {
    width_ = tags_.number_or(kWidth, 0);
    height_ = tags_.number_or(kHeight, 0);
    orientation_ = tags_.number_or(kOrientation, 1);
    if (orientation_ < 1 || orientation_ > 8) orientation_ = 1;
    return orientation_ <= 4 ? take_extent(width_, height_, limits)
                             : take_extent(height_, width_, limits);
  }

  bool take_colours() {
    if (tags_.count(kBits) == 0 || !tags_.all_are(kBits, 8))
      return say(
          fmt::format("a TIFF of {} bits a colour: 8 are decoded", tags_.number_or(kBits, 1)));
    if (!tags_.all_are(kSampleFormat, 1)) return say("a TIFF of numbers with sign or fraction");
    if (tags_.number_or(kFillOrder, 1) != 1) return say("a TIFF with its bits in reverse order");
    pieces_.samples = tags_.number_or(kSamples, 1);
    if (tags_.number_or(kPlanar, 1) != 1 && pieces_.samples != 1)
      return say("a TIFF with its colours apart from each other");
    if (tags_.count(kPhotometric) == 0) return say("a TIFF that does not say what its colours are");
    const std::uint32_t photometric = tags_.number(kPhotometric, 0);
    if (photometric > 3)
      return say(fmt::format("a TIFF of {}: grey, RGB and palettes are decoded",
                             tiff_colours(photometric)));
    constexpr std::array kColours = {Colours::inverted_grey, Colours::grey, Colours::rgb,
                                     Colours::palette};
    colours_ = kColours[photometric];
    const std::uint32_t least = colours_ == Colours::rgb ? 3 : 1;
    const bool may_have_alpha = colours_ == Colours::rgb || colours_ == Colours::grey;
    if (pieces_.samples != least && !(may_have_alpha && pieces_.samples == least + 1))
      return say(fmt::format("a TIFF of {} numbers a pixel", pieces_.samples));
    if (tags_.count(kBits) != 1 && tags_.count(kBits) != pieces_.samples)
      return say(fmt::format("a TIFF of {} numbers a pixel, with bits for {}", pieces_.samples,
                             tags_.count(kBits)));
    if (tags_.number_or(kExtraSamples, 0) == 1)
      return say("a TIFF with colours multiplied by alpha");
    if (colours_ == Colours::palette && tags_.count(kPalette) != 3 * 256)
      return say(
          fmt::format("a TIFF with a palette of {} numbers, not 768", tags_.count(kPalette)));
    return true;
  }

  bool take_compression() {
    pieces_.compression = tags_.number_or(kCompression, kPlain);
    pieces_.predictor = 1;
    switch (pieces_.compression) {
      case kPlain:
      case kPackBits:
        return true;
      case kLzw:
      case kDeflate:
      case kDeflateOfAdobe:
        pieces_.predictor = tags_.number_or(kPredictor, 1);
        return pieces_.predictor == 1 || pieces_.predictor == 2 ||
               say(fmt::format("a TIFF with predictor {}", pieces_.predictor));
      default:
        return say(
            fmt::format("a TIFF with compression ({}): LZW, Deflate, PackBits and none are decoded",
                        tiff_compression(pieces_.compression)));
    }
  }

  bool take_pieces(const DecodeLimits& limits) {
    const bool is_tiled = tags_.count(kTileWidth) != 0;
    pieces_.width = is_tiled ? tags_.number(kTileWidth, 0) : width_;
    pieces_.rows = is_tiled ? tags_.number_or(kTileHeight, 0)
                            : std::min(tags_.number_or(kRowsPerStrip, height_), height_);
    if (pieces_.width == 0 || pieces_.rows == 0) return say("a TIFF with pieces of no pixels");
    if (memory::counted_product(pieces_.width, pieces_.rows) > limits.pixels_most)
      return say(fmt::format("tiles of {} x {} pixels, of which {} are allowed", pieces_.width,
                             pieces_.rows, limits.pixels_most));
    offsets_ = is_tiled ? kTileOffsets : kStripOffsets;
    sizes_ = is_tiled ? kTileBytes : kStripBytes;
    const std::uint64_t across = (std::uint64_t{width_} + pieces_.width - 1) / pieces_.width;
    const std::uint64_t down = (std::uint64_t{height_} + pieces_.rows - 1) / pieces_.rows;
    if (tags_.count(offsets_) < across * down || tags_.count(sizes_) < across * down)
      return say(fmt::format("a TIFF of {} pieces, of which {} are there", across * down,
                             std::min(tags_.count(offsets_), tags_.count(sizes_))));
    is_tiled_ = is_tiled;
    return true;
  }

  Bytes piece_bytes() const {
    return memory::counted_product(memory::counted_product(pieces_.width, pieces_.rows),
                                   pieces_.samples);
  }

  // Orientations: 2, 3, 6 and 7 begin at the right as it is seen, 3, 4, 7 and 8 at the bottom.
  Placing place(PictureBuffer& out) const {
    const auto stride = static_cast<std::ptrdiff_t>(out.stride());
    const bool from_right =
        orientation_ == 2 || orientation_ == 3 || orientation_ == 6 || orientation_ == 7;
    const bool from_bottom =
        orientation_ == 3 || orientation_ == 4 || orientation_ == 7 || orientation_ == 8;
    Placing placing{out.pixels(), from_right ? -kPixel : kPixel, from_bottom ? -stride : stride};
    if (from_right) placing.first += kPixel * (extent().width - 1);
    if (from_bottom) placing.first += stride * (extent().height - 1);
    if (orientation_ > 4) std::swap(placing.across, placing.down);
    return placing;
  }

  bool decode_piece(std::size_t piece, std::uint32_t x, std::uint32_t y, const Placing& placing) {
    const std::size_t at = tags_.number(offsets_, piece), size = tags_.number(sizes_, piece);
    if (at > bytes_.size() || size > bytes_.size() - at) return ends_early();
    const auto stored = bytes_.subspan(at, size);
    const std::uint32_t across = std::min(pieces_.width, width_ - x);
    const std::uint32_t down = std::min(pieces_.rows, height_ - y);
    const std::size_t row = std::size_t{pieces_.width} * pieces_.samples;
    // A tile is stored as a whole, and the last strip as far as it goes.
    const std::size_t bytes = row * (is_tiled_ ? pieces_.rows : down);
    const auto* pixels = reinterpret_cast<const std::uint8_t*>(stored.data());
    if (pieces_.compression == kPlain) {
      if (stored.size() < bytes) return ends_early();
    } else {
      auto* const out = reinterpret_cast<std::uint8_t*>(piece_.data());
      if (!codes_.read(stored, {out, bytes}))
        return say(codes_.problem().empty() ? "its pixels are damaged" : codes_.problem());
      pixels = out;
    }
    for (std::uint32_t i = 0; i < down; ++i, pixels += row)
      write(pixels, across, placing.at(x, y + i), placing.across);
    return true;
  }

  void write(const std::uint8_t* from, std::uint32_t count, std::uint8_t* rgb,
             std::ptrdiff_t step) const {
    for (std::uint32_t i = 0; i < count; ++i, from += pieces_.samples, rgb += step) {
      switch (colours_) {
        case Colours::grey:
          std::fill_n(rgb, kChannels, from[0]);
          break;
        case Colours::inverted_grey:
          std::fill_n(rgb, kChannels, static_cast<std::uint8_t>(255 - from[0]));
          break;
        case Colours::palette:
          // All reds stand before all greens, with 16 bits each.
          for (std::uint32_t c = 0; c < kChannels; ++c)
            rgb[c] = static_cast<std::uint8_t>(tags_.number(kPalette, c * 256 + from[0]) >> 8);
          break;
        case Colours::rgb:
          std::copy_n(from, kChannels, rgb);
          break;
      }
    }
  }

  static constexpr std::ptrdiff_t kPixel = kChannels;

  std::span<const std::byte> bytes_;
  TiffTags tags_;
  std::uint32_t width_ = 0, height_ = 0;  // as stored
  std::uint32_t orientation_ = 1;
  Colours colours_ = Colours::grey;
  TiffPieces pieces_;
  bool is_tiled_ = false;
  TiffTag offsets_ = kStripOffsets, sizes_ = kStripBytes;
  TiffCodes codes_;
  memory::ScratchMemory piece_;
};

}  // namespace

std::unique_ptr<Decoder> make_tiff_decoder() {
  return std::make_unique<TiffDecoder>();
}

}  // namespace batchflow::prepare
