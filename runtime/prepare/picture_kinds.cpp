#include "runtime/prepare/picture_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/prepare/stored_numbers.h"

namespace batchflow::prepare {
namespace {

bool has_text(std::span<const std::byte> bytes, std::size_t at, std::string_view text) {
  return bytes.size() >= at + text.size() &&
         std::memcmp(bytes.data() + at, text.data(), text.size()) == 0;
}

bool is_webp(std::span<const std::byte> bytes) {
  return has_text(bytes, 0, "RIFF") && has_text(bytes, 8, "WEBP");
}

// The number 43 stands for files of more than 4 GiB.
bool is_tiff(std::span<const std::byte> bytes) {
  return has_text(bytes, 0, {"II*\0", 4}) || has_text(bytes, 0, {"MM\0*", 4}) ||
         has_text(bytes, 0, {"II+\0", 4}) || has_text(bytes, 0, {"MM\0+", 4});
}

// One of the brands that the first box lists is one of AVIF.
bool is_avif(std::span<const std::byte> bytes) {
  if (!has_text(bytes, 4, "ftyp")) return false;
  const std::size_t end = std::min<std::size_t>(big_number(bytes, 0, 4), bytes.size());
  for (std::size_t at = 8; at + 4 <= end; at += 4)
    if (at != 12 && (has_text(bytes, at, "avif") || has_text(bytes, at, "avis"))) return true;
  return false;
}

#ifndef BATCHFLOW_WEBP
constexpr std::unique_ptr<Decoder> (*make_webp_decoder)() = nullptr;
#endif
#ifndef BATCHFLOW_TIFF
constexpr std::unique_ptr<Decoder> (*make_tiff_decoder)() = nullptr;
#endif
#ifndef BATCHFLOW_AVIF
constexpr std::unique_ptr<Decoder> (*make_avif_decoder)() = nullptr;
#endif

// As "A, B and C", with another word for "and".
std::string kinds_text(const std::vector<std::string_view>& names, std::string_view last) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == names.size() ? last : ", ", names[i]);
  return text;
}

}  // namespace

const std::array<PictureKind, kPictureKinds>& picture_kinds() {
  static constexpr std::array<PictureKind, kPictureKinds> kinds = {{
      {"JPEG", is_jpeg, [] { return make_jpeg_decoder(); }, ""},
      {"PNG", is_png, make_png_decoder, ""},
      {"BMP", is_bmp, make_bmp_decoder, ""},
      {"WebP", is_webp, make_webp_decoder, "libwebp-dev"},
      {"TIFF", is_tiff, make_tiff_decoder, "libtiff-dev"},
      {"AVIF", is_avif, make_avif_decoder, "libavif-dev"},
  }};
  return kinds;
}

const PictureKind* picture_kind(std::span<const std::byte> bytes,
                                std::span<const PictureKind> kinds) {
  for (const PictureKind& kind : kinds)
    if (kind.is(bytes)) return &kind;
  return nullptr;
}

std::string decoded_kinds() {
  std::vector<std::string_view> names;
  for (const PictureKind& kind : picture_kinds())
    if (kind.make) names.push_back(kind.name);
  return kinds_text(names, " and ");
}

std::string decoder_builds() {
  std::string builds = jpeg_build();
  for (const PictureKind& kind : picture_kinds())
    if (!kind.make) builds += fmt::format(" without {}", kind.name);
  return builds;
}

std::string no_picture() {
  std::vector<std::string_view> names;
  for (const PictureKind& kind : picture_kinds()) names.push_back(kind.name);
  return "neither " + kinds_text(names, " nor ");
}

Decoder* PictureDecoders::find(std::span<const std::byte> bytes) {
  const PictureKind* const kind = picture_kind(bytes, kinds_);
  if (!kind || !kind->make) {
    problem_ = kind ? fmt::format("{}, which this build does not decode: it was made without {}",
                                  kind->name, kind->package)
                    : no_picture();
    return nullptr;
  }
  auto& decoder = made_[static_cast<std::size_t>(kind - kinds_.data())];
  if (!decoder) decoder = kind->make();
  return decoder.get();
}

void PictureDecoders::end() {
  for (const auto& decoder : made_)
    if (decoder) decoder->end();
}

Bytes PictureDecoders::held() const {
  Bytes bytes = 0;
  for (const auto& decoder : made_) bytes += decoder ? decoder->held() : 0;
  return bytes;
}

void PictureDecoders::drop() {
  for (const auto& decoder : made_)
    if (decoder) decoder->drop();
}

}  // namespace batchflow::prepare
