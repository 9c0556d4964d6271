#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "runtime/prepare/decode.h"
#include "tests/runtime/prepare/pictures.h"

namespace batchflow::test::jpeg_test {
namespace {

using test::encode_jpeg;
using test::Encoded;
using test::JpegWay;

struct Decoded {
  prepare::Box box;
  prepare::PictureBuffer pixels;
  std::string problem;
};

void decode(prepare::Decoder& decoder, const Encoded& bytes, const prepare::Box& wanted,
            Decoded& out) {
  out.box = {};
  if (decoder.open(bytes, {})) out.box = decoder.decode(wanted, out.pixels);
  out.problem = out.box.width == 0 ? std::string(decoder.problem()) : "";
}

// By the library's plainest way, in an object of its own.
std::vector<std::uint8_t> reference(const Encoded& bytes, int& width, int& height) {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&jpeg, TRUE);
  jpeg.out_color_space = JCS_RGB;
  jpeg_start_decompress(&jpeg);
  width = static_cast<int>(jpeg.output_width);
  height = static_cast<int>(jpeg.output_height);
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(width * height * 3));
  while (jpeg.output_scanline < jpeg.output_height) {
    auto* row = pixels.data() + std::size_t{jpeg.output_scanline} * jpeg.output_width * 3;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
  jpeg_destroy_decompress(&jpeg);
  return pixels;
}

const std::vector<std::pair<std::string, JpegWay>> kWays = {
    {"4:4:4", {}},
    {"4:2:2", {.h = 2}},
    {"4:4:0", {.v = 2}},
    {"4:2:0", {.h = 2, .v = 2}},
    {"4:1:1", {.h = 4}},
    {"4:1:0", {.h = 4, .v = 2}},
    {"4:2:0, own codes", {.h = 2, .v = 2, .own_codes = true}},
    {"4:4:4, large numbers", {.quality = 100}},
    {"4:2:0, few numbers", {.h = 2, .v = 2, .quality = 5, .own_codes = true}},
    {"grey", {.from = JCS_GRAYSCALE}},
    {"grey, odd factors", {.from = JCS_GRAYSCALE, .h = 2, .v = 2}},
    {"4:2:0, restarts", {.h = 2, .v = 2, .restart_rows = 1}},
    {"progressive 4:2:0", {.h = 2, .v = 2, .progressive = true}},
    {"progressive 4:4:4, restarts", {.progressive = true, .restart_rows = 2}},
    {"progressive grey", {.from = JCS_GRAYSCALE, .progressive = true}},
    {"arithmetic 4:2:0", {.h = 2, .v = 2, .arithmetic = true}},
};

// Whether all of `part` that is inside `wanted` is as in the whole.
bool same(const Decoded& part, const prepare::Box& wanted, const std::uint8_t* whole, int width) {
  if (wanted.x < part.box.x || wanted.y < part.box.y ||
      wanted.x + wanted.width > part.box.x + part.box.width ||
      wanted.y + wanted.height > part.box.y + part.box.height)
    return false;
  for (int y = 0; y < wanted.height; ++y) {
    const std::uint8_t* expected = whole + 3 * ((wanted.y + y) * width + wanted.x);
    const std::uint8_t* got =
        part.pixels.view().row(wanted.y - part.box.y + y) + 3 * (wanted.x - part.box.x);
    if (std::memcmp(expected, got, static_cast<std::size_t>(3 * wanted.width)) != 0) return false;
  }
  return true;
}

TEST_CASE("a part of a JPEG is what the whole has there, byte for byte") {
  const auto decoder = prepare::make_jpeg_decoder();
  Decoded whole_picture, part;
  int parts = 0;
  for (const auto& [name, way] : kWays) {
    Random random(hash(7, parts));
    for (int i = 0; i < 60; ++i) {
      const int width = 1 + static_cast<int>(random.below(i % 3 == 0 ? 40 : 300));
      const int height = 1 + static_cast<int>(random.below(i % 2 == 0 ? 40 : 200));
      const Encoded bytes = encode_jpeg(width, height, way, random.draw());
      int w = 0, h = 0;
      const auto expected = reference(bytes, w, h);
      for (int k = 0; k < 12; ++k) {
        prepare::Box wanted;
        wanted.width = 1 + static_cast<int>(random.below(static_cast<unsigned>(width)));
        wanted.height = 1 + static_cast<int>(random.below(static_cast<unsigned>(height)));
        wanted.x = static_cast<int>(random.below(static_cast<unsigned>(width - wanted.width + 1)));
        wanted.y =
            static_cast<int>(random.below(static_cast<unsigned>(height - wanted.height + 1)));
        decode(*decoder, bytes, wanted, part);
        INFO(fmt::format("{} {} x {}, part {} x {} at {}, {}: {}", name, width, height,
                         wanted.width, wanted.height, wanted.x, wanted.y, part.problem));
        REQUIRE(same(part, wanted, expected.data(), width));
        ++parts;
      }
      decode(*decoder, bytes, prepare::whole({width, height}), whole_picture);
      REQUIRE(same(whole_picture, prepare::whole({width, height}), expected.data(), width));
    }
  }
  MESSAGE(parts, " parts of ", kWays.size(), " kinds");
}

// Found by the fuzzer: libjpeg's objects keep tables from picture to picture.
TEST_CASE("a JPEG without its tables is corrupt, whatever was decoded before it") {
  const Encoded good = encode_jpeg(40, 30);
  Encoded bare(good.begin(), good.begin() + 2);
  for (std::size_t i = 2; i < good.size();) {
    const auto kind = static_cast<int>(good[i + 1]);
    const bool scan = kind == 0xda;
    const std::size_t end = scan ? good.size()
                                 : i + 2 +
                                       (static_cast<std::size_t>(good[i + 2]) << 8 |
                                        static_cast<std::size_t>(good[i + 3]));
    if (kind != 0xdb)  // quantisation
      bare.insert(bare.end(), good.begin() + static_cast<std::ptrdiff_t>(i),
                  good.begin() + static_cast<std::ptrdiff_t>(end));
    i = end;
  }
  const auto decoder = prepare::make_jpeg_decoder();
  Decoded out;
  for (const auto* picture : {&std::as_const(bare), &good, &std::as_const(bare)}) {
    decode(*decoder, *picture, prepare::whole({40, 30}), out);
    CHECK((out.box.width == 0) == (picture == &bare));
  }
  CHECK(out.problem == "Quantization table 0x00 was not defined");
}

}  // namespace
}  // namespace batchflow::test::jpeg_test
