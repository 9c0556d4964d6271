#include <doctest/doctest.h>

#include <fstream>

#include "tests/fuzz/corpus.h"
#include "tests/runtime/prepare/golden.h"
#include "tests/runtime/prepare/other_pictures.h"

namespace batchflow::test::fuzz_test {

extern "C" Fuzzer fuzz_jpeg, fuzz_png, fuzz_picture, fuzz_pipeline, fuzz_video;

// BATCHFLOW_WRITE_CORPUS=1 writes the corpora of pictures.
TEST_CASE("corpora of pictures" * doctest::skip(std::getenv("BATCHFLOW_WRITE_CORPUS") == nullptr)) {
  const auto write = [](const std::string& name, const Encoded& bytes) {
    std::ofstream(source_dir() / "tests/fuzz" / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  };
  write("jpeg/corpus/444", encode_jpeg(33, 21));
  write("jpeg/corpus/420", encode_jpeg(70, 41, {.h = 2, .v = 2, .quality = 40}));
  write("jpeg/corpus/422-restarts", encode_jpeg(40, 40, {.h = 2, .restart_rows = 1}));
  write("jpeg/corpus/411", encode_jpeg(90, 9, {.h = 4}));
  write("jpeg/corpus/own-codes", encode_jpeg(50, 40, {.h = 2, .v = 2, .own_codes = true}));
  write("jpeg/corpus/large-numbers", encode_jpeg(32, 24, {.quality = 100}));
  write("jpeg/corpus/420-restarts", encode_jpeg(66, 70, {.h = 2, .v = 2, .restart_rows = 1}));
  write("jpeg/corpus/grey", encode_jpeg(31, 30, {.from = JCS_GRAYSCALE}));
  write("jpeg/corpus/progressive", encode_jpeg(35, 35, {.h = 2, .v = 2, .progressive = true}));
  write("jpeg/corpus/arithmetic", encode_jpeg(30, 30, {.arithmetic = true}));
  write("jpeg/corpus/ycck", encode_jpeg(30, 25, {.from = JCS_CMYK, .as_ycck = true}));
  const auto png = [&](const std::string& name, int colour, int depth, bool interlaced) {
    const auto pixels = make_pixels(24, 18, 8, 1);  // enough for any of them
    write("png/corpus/" + name, encode_png(pixels, 24, 18, colour, depth, interlaced));
  };
  png("rgb", PNG_COLOR_TYPE_RGB, 8, false);
  png("rgb-interlaced", PNG_COLOR_TYPE_RGB, 8, true);
  png("rgba-16", PNG_COLOR_TYPE_RGB_ALPHA, 16, false);
  png("grey-16", PNG_COLOR_TYPE_GRAY, 16, true);
  png("grey-1", PNG_COLOR_TYPE_GRAY, 1, false);
  png("grey-alpha", PNG_COLOR_TYPE_GRAY_ALPHA, 8, false);
  for (const GoldenCase& one : golden_cases()) {
    const auto bytes = read_file(golden_folder() / one.picture);
    const std::string_view kind = prepare::picture_kind(bytes)->name;
    if (kind != "JPEG" && kind != "PNG" && bytes.size() < 8000)
      write("picture/corpus/" + one.name.substr(std::string_view("decode-").size()), bytes);
  }
  write("picture/corpus/webp-many-codes", webp_of_many_codes(40));
  write("picture/corpus/avif", encode_avif(24, 18, {}));
  write("picture/corpus/avif-alpha", encode_avif(24, 18, {.channels = 4, .lossless = true}));
  write("picture/corpus/avif-deep", encode_avif(24, 18, {.deep = true}));
  write("picture/corpus/avif-moving", encode_avif(24, 18, {.frames = 2}));
}

TEST_CASE("damaged pictures") {
  fuzz(fuzz_jpeg, "jpeg", 3000, "test_prepare", "damaged pictures");
  fuzz(fuzz_png, "png", 3000, "test_prepare", "damaged pictures");
  fuzz(fuzz_picture, "picture", 12000, "test_prepare", "damaged pictures");
}

// Without FFmpeg only what is stored of a group is read.
TEST_CASE("damaged groups of frames") {
  fuzz(fuzz_video, "video", 3000, "test_prepare", "damaged groups of frames");
}

TEST_CASE("damaged pipelines") {
  fuzz(fuzz_pipeline, "pipeline", 2000, "test_prepare", "damaged pipelines");
}

}  // namespace batchflow::test::fuzz_test
