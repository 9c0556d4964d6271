// BMP, WebP, TIFF and AVIF. What Pillow makes of them is tested in golden_test.cpp.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "runtime/prepare/picture_kinds.h"
#include "runtime/prepare/webp_codes.h"
#include "tests/runtime/prepare/golden.h"
#include "tests/runtime/prepare/other_pictures.h"
#include "tests/skip.h"

namespace batchflow::test::kinds_test {
namespace {

using prepare::Box;
using prepare::PictureDecoders;
using prepare::PictureKind;

struct Result {
  std::vector<std::uint8_t> pixels;  // none: `problem` says why
  prepare::Extent2 extent;
  std::string problem;
};

Result decode(PictureDecoders& decoders, std::span<const std::byte> bytes,
              const prepare::DecodeLimits& limits = {1 << 20}) {
  prepare::Decoder* const decoder = decoders.find(bytes);
  if (!decoder) return {{}, {}, decoders.problem()};
  prepare::PictureBuffer out;
  if (!decoder->open(bytes, limits)) return {{}, {}, std::string(decoder->problem())};
  const prepare::Extent2 extent = decoder->extent();
  const Box got = decoder->decode(prepare::whole(extent), out);
  if (got.width == 0) return {{}, {}, std::string(decoder->problem())};
  CHECK(got == prepare::whole(extent));
  const std::size_t size = out.stride() * static_cast<std::size_t>(extent.height);
  return {{out.pixels(), out.pixels() + size}, extent, ""};
}

Result decode(std::span<const std::byte> bytes, const prepare::DecodeLimits& limits = {1 << 20}) {
  PictureDecoders decoders;
  return decode(decoders, bytes, limits);
}

// The pictures of make_golden.py that this build decodes, but not those of JPEG and PNG.
std::vector<std::pair<std::string, Encoded>> other_files() {
  std::vector<std::pair<std::string, Encoded>> files;
  for (const GoldenCase& one : golden_cases()) {
    const auto bytes = read_file(golden_folder() / one.picture);
    const std::string_view kind = prepare::picture_kind(bytes)->name;
    if (kind != "JPEG" && kind != "PNG" && is_decoded_here(bytes))
      files.emplace_back(one.name, bytes);
  }
  for (const bool lossless : {true, false})
    for (const int channels : {3, 4})
      if (const Encoded avif = encode_avif(24, 18, {.channels = channels, .lossless = lossless});
          !avif.empty())
        files.emplace_back(fmt::format("avif-{}-{}", channels, lossless), avif);
  return files;
}

Encoded golden(std::string_view name) {
  for (const GoldenCase& one : golden_cases())
    if (one.name == name) return read_file(golden_folder() / one.picture);
  FAIL(name);
  return {};
}

Encoded text(std::string_view characters) {
  const auto* bytes = reinterpret_cast<const std::byte*>(characters.data());
  return {bytes, bytes + characters.size()};
}

void put(Encoded& bytes, std::size_t at, std::uint32_t value, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) bytes.at(at + i) = static_cast<std::byte>(value >> 8 * i);
}
Encoded with(Encoded bytes, std::size_t at, std::uint32_t value, std::size_t size) {
  put(bytes, at, value, size);
  return bytes;
}

// A TIFF of little-endian numbers in which the tag has this value.
Encoded with_tag(Encoded bytes, std::uint32_t tag, std::uint32_t value) {
  const auto number = [&](std::size_t at, std::size_t size) {
    std::uint32_t read = 0;
    for (std::size_t i = size; i > 0; --i)
      read = read << 8 | std::to_integer<std::uint32_t>(bytes.at(at + i - 1));
    return read;
  };
  const std::size_t at = number(4, 4);
  for (std::uint32_t i = 0; i < number(at, 2); ++i) {
    const std::size_t entry = at + 2 + std::size_t{12} * i;
    if (number(entry, 2) != tag) continue;
    const bool is_long = number(entry + 2, 2) == 4;
    const std::size_t size = is_long ? 4 : 2;
    put(bytes, number(entry + 4, 4) * size <= 4 ? entry + 8 : number(entry + 8, 4), value, size);
    return bytes;
  }
  FAIL(tag);
  return bytes;
}

// ----------------------------------------------------------------------------------- kinds ----

TEST_CASE("the content of a file says which kind of picture it is") {
  const auto kind = [](std::string_view characters) {
    const PictureKind* const found = prepare::picture_kind(text(characters));
    return found ? found->name : "none";
  };
  using namespace std::literals;
  CHECK(kind("\xff\xd8\xff\xe0"sv) == "JPEG");
  CHECK(kind("\x89PNG\r\n\x1a\n"sv) == "PNG");
  CHECK(kind("BM\0\0\0\0\0\0\0\0\0\0\0\0\x28\0\0\0"sv) == "BMP");
  CHECK(kind("BM is not a picture, though it begins like one"sv) == "none");
  CHECK(kind("RIFF\0\0\0\0WEBPVP8 "sv) == "WebP");
  CHECK(kind("RIFF\0\0\0\0WAVEfmt "sv) == "none");
  CHECK(kind("II*\0\x08\0\0\0"sv) == "TIFF");
  CHECK(kind("MM\0*\0\0\0\x08"sv) == "TIFF");
  CHECK(kind("\0\0\0\x1c"
             "ftypavif\0\0\0\0"sv) == "AVIF");
  CHECK(kind("\0\0\0\x1c"
             "ftypmif1\0\0\0\0miafavif"sv) == "AVIF");
  CHECK(kind("\0\0\0\x10"
             "ftypmif1\0\0\0\0miafavif"sv) == "none");
  CHECK(kind("\0\0\0\x1c"
             "ftypheic\0\0\0\0mif1heic"sv) == "none");
  CHECK(kind("GIF89a") == "none");
  CHECK(kind("") == "none");
  for (const GoldenCase& one : golden_cases())
    CHECK(prepare::picture_kind(read_file(golden_folder() / one.picture)));
  CHECK(decode(text("GIF89a")).problem == "neither JPEG, PNG, BMP, WebP, TIFF nor AVIF");
}

TEST_CASE("a build without a library names the package") {
  const std::array<PictureKind, 2> kinds = {{
      {"BMP", prepare::is_bmp, prepare::make_bmp_decoder, ""},
      {"WebP", [](std::span<const std::byte> bytes) { return bytes[0] == std::byte{'R'}; }, nullptr,
       "libwebp-dev"},
  }};
  PictureDecoders decoders(kinds);
  CHECK(decode(decoders, golden("decode-webp")).problem ==
        "WebP, which this build does not decode: it was made without libwebp-dev");
  CHECK(decode(decoders, golden("decode-bmp-rgb")).problem == "");
}

TEST_CASE("one after the other, pictures of all kinds are decoded as if they were alone") {
  PictureDecoders decoders;
  for (int round = 0; round < 2; ++round) {
    for (const auto& [name, bytes] : other_files()) {
      INFO(name);
      const Result alone = decode(bytes);
      CHECK(alone.problem == "");
      CHECK(decode(decoders, bytes).pixels == alone.pixels);
      decoders.end();
    }
#if defined(BATCHFLOW_TIFF) || defined(BATCHFLOW_AVIF)
    CHECK(decoders.held() > 0);
#endif
    decoders.drop();
    CHECK(decoders.held() == 0);
  }
}

// --------------------------------------------------------------------------------- refusals ----

TEST_CASE("a BMP of another kind is refused by name") {
  const Encoded plain = golden("decode-bmp-rgb"), palette = golden("decode-bmp-palette-from-top");
  const std::pair<Encoded, std::string_view> cases[] = {
      {with(plain, 14, 12, 4), "a BMP with a header of 12 bytes: 40 to 124 are decoded"},
      {with(plain, 28, 16, 2), "a BMP of 16 bits a pixel: 8, 24 and 32 are decoded"},
      {with(plain, 28, 4, 2), "a BMP of 4 bits a pixel: 8, 24 and 32 are decoded"},
      {with(plain, 30, 1, 4), "a BMP with compression (RLE8): those without are decoded"},
      {with(plain, 30, 3, 4), "a BMP with compression (bit fields): those without are decoded"},
      {with(plain, 30, 77, 4), "a BMP with compression (number 77): those without are decoded"},
      {with(plain, 18, 0xffffffff, 4), "a BMP with a width below 0"},
      {with(plain, 18, 0, 4), "it has no pixels"},
      {with(plain, 18, 0x7fffffff, 4), "2147483647 x 37 pixels, of which 1048576 are allowed"},
      {with(plain, 22, 0x80000000, 4), "45 x 2147483648 pixels, of which 1048576 are allowed"},
      {with(plain, 22, 38, 4), "the data ends early"},
      {with(plain, 10, 20, 4), "a BMP with pixels inside its header"},
      {with(plain, 10, 0xffffffff, 4), "the data ends early"},
      {with(palette, 46, 257, 4), "a BMP with a palette of 257 colours"},
      {with(palette, 46, 3, 4), "colour "},
  };
  for (const auto& [bytes, problem] : cases)
    CHECK_MESSAGE(decode(bytes).problem.starts_with(problem), decode(bytes).problem);
}

TEST_CASE("a TIFF of another kind is refused by name") {
#ifndef BATCHFLOW_TIFF
  return skipped("libtiff-dev is not installed");
#endif
  const Encoded plain = golden("decode-tiff-strips"), tiles = golden("decode-tiff-tiles");
  const Encoded predicted = golden("decode-tiff-predictor"), named = golden("decode-tiff-unnamed");
  const std::pair<Encoded, std::string_view> cases[] = {
      {with(plain, 2, 43, 2), "a BigTIFF, which is not decoded"},
      {with_tag(plain, 258, 16), "a TIFF of 16 bits a colour: 8 are decoded"},
      {with_tag(plain, 259, 7),
       "a TIFF with compression (JPEG): LZW, Deflate, PackBits and none are decoded"},
      {with_tag(plain, 259, 50000),
       "a TIFF with compression (Zstandard): LZW, Deflate, PackBits and none are decoded"},
      {with_tag(plain, 262, 6), "a TIFF of YCbCr: grey, RGB and palettes are decoded"},
      {with_tag(plain, 262, 5), "a TIFF of inks (CMYK): grey, RGB and palettes are decoded"},
      {with_tag(plain, 262, 3), "a TIFF of 3 numbers a pixel"},
      {with_tag(plain, 277, 13), "a TIFF of 13 numbers a pixel"},
      {with_tag(plain, 284, 2), "a TIFF with its colours apart from each other"},
      {with_tag(plain, 256, 0), "it has no pixels"},
      {with_tag(plain, 256, 0xffffffff), "4294967295 x 37 pixels, of which 1048576 are allowed"},
      {with_tag(plain, 257, 400), "a TIFF of 45 pieces, of which 5 are there"},
      {with_tag(plain, 278, 0), "a TIFF with pieces of no pixels"},
      {with_tag(plain, 273, 0xfffffff0), "the data ends early"},
      {with_tag(plain, 279, 3), "the data ends early"},
      {with(plain, 4, 0xffffffff, 4), "the data ends early"},
      {with_tag(tiles, 322, 0), "a TIFF with pieces of no pixels"},
      {with_tag(tiles, 322, 65535), "tiles of 65535 x 32 pixels, of which 1048576 are allowed"},
      {with_tag(predicted, 317, 3), "a TIFF with predictor 3"},
      {with_tag(named, 338, 1), "a TIFF with colours multiplied by alpha"},
  };
  for (const auto& [bytes, problem] : cases)
    CHECK_MESSAGE(decode(bytes).problem.starts_with(problem), problem, " ", decode(bytes).problem);
}

TEST_CASE("a WebP that contradicts itself is refused") {
#ifndef BATCHFLOW_WEBP
  return skipped("libwebp-dev is not installed");
#endif
  const Encoded part = golden("decode-webp-moving-part"), plain = golden("decode-webp");
  const Encoded lossless = golden("decode-webp-lossless");
  // The canvas stands at 24, the first frame at 52 behind its name and size.
  const std::pair<Encoded, std::string_view> cases[] = {
      {with(part, 24, 0xffffff, 3), "16777216 x 37 pixels, of which 1048576 are allowed"},
      {with(part, 27, 0xffffff, 3), "45 x 16777216 pixels, of which 1048576 are allowed"},
      {with(part, 24, 20, 3), "a WebP with a frame beyond its edges"},
      {with(part, 52, 0xffffff, 3), "a WebP with a frame beyond its edges"},
      {with(part, 58, 20, 3), "20 x 16 pixels in a frame of 21 x 16"},
      {with(plain, 4, 0xffffffff, 4), "the data ends early"},
      {with(plain, 16, 0xffffffff, 4), "the data ends early"},
      {with(plain, 12, 0, 4), "a WebP without pixels"},
      {with(plain, 23, 0, 3), "its first pixels are damaged"},
      {with(lossless, 20, 0, 1), "its first pixels are damaged"},
  };
  for (const auto& [bytes, problem] : cases)
    CHECK_MESSAGE(decode(bytes).problem == problem, decode(bytes).problem);
}

TEST_CASE("a picture that is cut anywhere is refused with a reason, or was whole without its end") {
  for (const auto& [name, bytes] : other_files()) {
    INFO(name);
    const Result all = decode(bytes);
    REQUIRE(all.problem == "");
    const std::size_t step = std::max<std::size_t>(1, bytes.size() / 150);
    std::size_t refused = 0;
    for (std::size_t size = 0; size < bytes.size(); size += step) {
      // The copy is exactly as long, so that a sanitizer sees a read beyond its end.
      const Encoded cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      const Result got = decode(cut);
      CHECK(got.pixels.empty() != got.problem.empty());
      if (!got.pixels.empty()) CHECK(got.pixels == all.pixels);
      refused += got.pixels.empty();
    }
    CHECK(refused >= bytes.size() / step * 3 / 4);
  }
}

// ------------------------------------------------------------------------------------- AVIF ----

TEST_CASE("an AVIF without loss has the pixels that it was made from, without its alpha") {
  for (const int channels : {3, 4}) {
    const Encoded avif = encode_avif(45, 37, {.channels = channels, .lossless = true});
    if (avif.empty()) return skipped("there is nothing here that encodes AVIF");
    const Result got = decode(avif);
    CHECK(got.problem == "");
    const auto made = make_pixels(45, 37, channels, 1);
    REQUIRE(got.pixels.size() == 45 * 37 * 3);
    for (std::size_t i = 0; i < 45 * 37; ++i)
      for (std::size_t c = 0; c < 3; ++c)
        REQUIRE(got.pixels[3 * i + c] == made[static_cast<std::size_t>(channels) * i + c]);
  }
}

TEST_CASE("an AVIF with loss, a deep one and a moving one are near what they were made from") {
  for (const AvifWay way :
       {AvifWay{}, AvifWay{.deep = true}, AvifWay{.channels = 4}, AvifWay{.frames = 3}}) {
    const Encoded avif = encode_avif(60, 50, way);
    if (avif.empty()) return skipped("there is nothing here that encodes AVIF");
    const Result got = decode(avif);
    CHECK(got.problem == "");
    CHECK(got.extent == prepare::Extent2{60, 50});
    const auto made = make_pixels(60, 50, way.channels, 1, kLittleNoise);
    REQUIRE(got.pixels.size() == 60 * 50 * 3);
    double off = 0;
    for (std::size_t i = 0; i < 60 * 50; ++i)
      for (std::size_t c = 0; c < 3; ++c)
        off +=
            std::abs(got.pixels[3 * i + c] - made[static_cast<std::size_t>(way.channels) * i + c]);
    CHECK(off / static_cast<double>(got.pixels.size()) < 6);
  }
}

// Frames that are not shown take time to decode, and few bytes: here the only frame comes again.
TEST_CASE("an AVIF of very many frames is refused before they are decoded") {
  const Encoded avif = encode_avif(24, 18, {});
  if (avif.empty()) return skipped("there is nothing here that encodes AVIF");
  const auto find = [&](std::string_view name) {
    for (std::size_t i = 0; i + 4 <= avif.size(); ++i)
      if (std::memcmp(avif.data() + i, name.data(), 4) == 0) return i;
    FAIL(name);
    return std::size_t{0};
  };
  // The data is what the last box has. Its place and size are the last numbers of iloc.
  const std::size_t data = find("mdat") + 4, bytes = avif.size() - data, iloc = find("iloc");
  std::size_t size_at = 0;
  for (std::size_t i = iloc; i < iloc + 60; ++i)
    if (std::to_integer<std::size_t>(avif[i]) << 8 == (bytes & 0xff00) &&
        (std::to_integer<std::size_t>(avif[i + 1])) == (bytes & 0xff) && bytes < 65536)
      size_at = i - 2;
  REQUIRE(size_at != 0);
  for (const int times : {50, 150}) {
    Encoded many = avif;
    for (int i = 1; i < times; ++i)
      many.insert(many.end(), avif.begin() + static_cast<std::ptrdiff_t>(data), avif.end());
    put(many, size_at, __builtin_bswap32(static_cast<std::uint32_t>(bytes * times)), 4);
    put(many, data - 8, __builtin_bswap32(static_cast<std::uint32_t>(bytes * times + 8)), 4);
    const Result got = decode(many);
    if (times > 100)
      CHECK(got.problem == "more than 100 frames");
    else
      CHECK(got.pixels == decode(avif).pixels);
  }
}

// libavif scales a frame to the size that the file claims.
TEST_CASE("an AVIF with a header that claims another size has that size, or is refused") {
  const Encoded avif = encode_avif(64, 48, {});
  if (avif.empty()) return skipped("there is nothing here that encodes AVIF");
  std::size_t at = 0;
  for (std::size_t i = 0; i + 4 <= avif.size() && at == 0; ++i)
    if (std::memcmp(avif.data() + i, "ispe", 4) == 0) at = i + 8;
  REQUIRE(at != 0);
  for (const std::uint32_t width : {1u, 63u, 65u, 4096u}) {
    const Result got = decode(with(avif, at, __builtin_bswap32(width), 4));
    CAPTURE(width);
    if (got.problem.empty()) CHECK(got.extent == prepare::Extent2{static_cast<int>(width), 48});
  }
  CHECK(decode(with(avif, at, __builtin_bswap32(30'000), 4)).problem ==
        "30000 x 48 pixels, of which 1048576 are allowed");
  for (const std::uint32_t width : {0u, 0x7fffffffu, 0xffffffffu})
    CHECK(decode(with(avif, at, __builtin_bswap32(width), 4)).problem != "");
}

// ------------------------------------------------------------------------------------- WebP ----

#ifdef BATCHFLOW_WEBP
TEST_CASE("the groups of codes of a lossless WebP are counted") {
  for (const std::uint32_t groups : {1u, 2u, 1000u, 1001u, 4096u}) {
    CAPTURE(groups);
    const Encoded webp = webp_of_many_codes(groups);
    const auto counted = prepare::webp_code_groups(std::span(webp).subspan(20));
    REQUIRE(counted);
    CHECK(*counted >= groups);
    CHECK(*counted <= std::max(groups, 4096u));
    const Result got = decode(webp);
    CHECK(got.problem == "");
    CHECK(got.pixels.size() == 256 * 256 * 3);
  }
}
#endif

}  // namespace
}  // namespace batchflow::test::kinds_test
