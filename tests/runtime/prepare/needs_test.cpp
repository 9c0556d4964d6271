// What decoders say that a picture takes, beside what it does take.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <malloc.h>

#include <fstream>
#include <optional>
#include <string>

#include "runtime/prepare/picture_kinds.h"
#include "tests/runtime/prepare/other_pictures.h"
#include "tests/runtime/prepare/pictures.h"

namespace batchflow::test::needs_test {
namespace {

using test::encode_jpeg;
using test::encode_png;
using test::JpegWay;

// What the library and the decoder have of the heap: they keep all of it until end().
Bytes heap() {
  const struct mallinfo2 all = mallinfo2();
  return all.uordblks + all.hblkhd;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kHeapIsMeasured = false;
#else
constexpr bool kHeapIsMeasured = true;
#endif

TEST_CASE("a JPEG takes no more than was said when its header had been read") {
  const JpegWay ways[] = {{},
                          {.h = 2, .v = 2},
                          {.h = 4, .v = 2},
                          {.h = 2, .v = 2, .progressive = true},
                          {.progressive = true},
                          {.from = JCS_CMYK},
                          {.from = JCS_CMYK, .progressive = true},
                          {.from = JCS_GRAYSCALE, .h = 2, .v = 2, .progressive = true},
                          {.h = 2, .v = 2, .arithmetic = true}};
  const prepare::Extent2 sizes[] = {{1, 1},      {700, 500},  {2000, 1500},
                                    {65'000, 3}, {3, 65'000}, {9000, 40}};
  for (const JpegWay& way : ways) {
    for (const prepare::Extent2 size : sizes) {
      const test::Encoded bytes = encode_jpeg(size.width, size.height, way);
      const auto decoder = prepare::make_jpeg_decoder();
      prepare::PictureBuffer out;
      const Bytes before = heap();
      REQUIRE(decoder->open(bytes, {}));
      const prepare::Box all = prepare::whole(size);
      const Bytes said = decoder->needs(all);
      REQUIRE(decoder->decode(all, out) == all);
      const Bytes took = heap() - before;  // and a row elsewhere
      CAPTURE(size.width);
      CAPTURE(size.height);
      CAPTURE(way.progressive);
      CAPTURE(static_cast<int>(way.from));
      if (kHeapIsMeasured) CHECK(took <= said);
      CHECK(said < 16 * prepare::PictureBuffer::bytes(size) + (32u << 20));
      decoder->end();
    }
  }
}

// It is held to what was said: then it would find no memory.
TEST_CASE("a PNG of any kind takes no more than was said") {
  const struct {
    int colour, depth, channels;
  } kinds[] = {{PNG_COLOR_TYPE_GRAY, 1, 1},      {PNG_COLOR_TYPE_GRAY, 8, 1},
               {PNG_COLOR_TYPE_GRAY, 16, 1},     {PNG_COLOR_TYPE_GRAY_ALPHA, 16, 2},
               {PNG_COLOR_TYPE_RGB, 16, 3},      {PNG_COLOR_TYPE_RGB_ALPHA, 8, 4},
               {PNG_COLOR_TYPE_RGB_ALPHA, 16, 4}};
  const prepare::Extent2 sizes[] = {{1, 1}, {700, 500}, {300'000, 2}, {2, 300'000}};
  for (const auto& kind : kinds) {
    for (const prepare::Extent2 size : sizes) {
      for (const bool interlaced : {false, true}) {
        const std::size_t row =
            (static_cast<std::size_t>(size.width * kind.channels * kind.depth) + 7) / 8;
        const std::vector<std::uint8_t> pixels(row * static_cast<std::size_t>(size.height), 0x35);
        const test::Encoded bytes =
            encode_png(pixels, size.width, size.height, kind.colour, kind.depth, interlaced);
        const auto decoder = prepare::make_png_decoder();
        prepare::PictureBuffer out;
        REQUIRE(decoder->open(bytes, {}));
        CAPTURE(decoder->problem());
        CHECK(decoder->decode(prepare::whole(size), out) == prepare::whole(size));
        CHECK_FALSE(decoder->ran_out_of_memory());
        CHECK(decoder->held() <= decoder->needs(prepare::whole(size)) + 8192);
      }
    }
  }
}

// How much of the machine's memory the process has had at most since the last call, if the kernel
// says so.
std::optional<Bytes> peak_of_process() {
  std::optional<Bytes> peak;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) peak = std::stoull(line.substr(6)) * 1024;
  std::ofstream reset("/proc/self/clear_refs");
  reset << "5" << std::flush;
  return reset ? peak : std::nullopt;
}

// Their libraries take and free memory as they go, so the most that they had is what counts.
TEST_CASE("pictures of other kinds take no more than was said when their header had been read") {
  std::vector<std::pair<std::string, test::Encoded>> pictures;
  for (const bool lossless : {false, true})
    for (const bool deep : {false, true})
      for (const int channels : {3, 4})
        if (!(lossless && deep))
          pictures.emplace_back(
              fmt::format("avif, {} channels, deep {}, lossless {}", channels, deep, lossless),
              test::encode_avif(1500, 1200,
                                {.channels = channels, .lossless = lossless, .deep = deep}));
#ifdef BATCHFLOW_WEBP
  for (const bool lossless : {false, true})
    for (const prepare::Extent2 size : {prepare::Extent2{2000, 1500}, {16'000, 100}})
      pictures.emplace_back(fmt::format("webp, lossless {}", lossless),
                            test::encode_webp(size.width, size.height, lossless));
  pictures.emplace_back("webp of many codes", test::webp_of_many_codes(4096));
#endif
#ifdef BATCHFLOW_TIFF
  for (const int rows : {1, 100, 1500})
    pictures.emplace_back(fmt::format("tiff of {} rows a strip", rows),
                          test::encode_tiff(2000, 1500, rows));
#endif
  for (const auto& [name, bytes] : pictures) {
    if (bytes.empty()) continue;  // nothing here encodes it
    INFO(name);
    prepare::PictureDecoders decoders;
    prepare::PictureBuffer out;
    prepare::Decoder* const decoder = decoders.find(bytes);
    REQUIRE(decoder);
    REQUIRE(decoder->open(bytes, {}));
    const prepare::Box all = prepare::whole(decoder->extent());
    out.reset(decoder->extent());
    std::memset(out.pixels(), 1, out.stride() * static_cast<std::size_t>(all.height));
    malloc_trim(0);
    peak_of_process();
    const auto before = peak_of_process();
    REQUIRE(decoder->decode(all, out) == all);
    const auto after = peak_of_process();
    const Bytes said = decoder->needs(all);
    if (kHeapIsMeasured && before && after)
      CHECK_MESSAGE(*after - *before <= said, fmt::format("{} of {}", *after - *before, said));
    CHECK(said < 16 * prepare::PictureBuffer::bytes(decoder->extent()) + (100u << 20));
  }
}

}  // namespace
}  // namespace batchflow::test::needs_test
