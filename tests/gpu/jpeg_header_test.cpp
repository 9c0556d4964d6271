#include "runtime/gpu/jpeg_header.h"

#include <doctest/doctest.h>

#include "tests/gpu/jpegs.h"

namespace batchflow::gpu {
namespace {

constexpr JpegWays kCpu = only(JpegWay::cpu);
constexpr JpegWays kHost = kCpu | only(JpegWay::host_huffman);
constexpr JpegWays kAnywhere = kHost | only(JpegWay::cuda) | only(JpegWay::hardware);

JpegWays ways(const test::Jpeg& jpeg) {
  const auto header = read_jpeg_header(test::jpeg(jpeg));
  REQUIRE(header);
  CHECK(header->extent == kernels::Extent2{jpeg.width, jpeg.height});
  return header->ways;
}

TEST_CASE("the usual kinds may be decoded anywhere") {
  CHECK(ways({500, 375}) == kAnywhere);
  CHECK(ways({.width = 1, .height = 1}) == kAnywhere);
  CHECK(ways({.width = 65535, .height = 300}) == kAnywhere);
  CHECK(ways({.width = 20, .height = 10, .across = 1, .down = 1}) == kAnywhere);
  CHECK(ways({.width = 20, .height = 10, .across = 2, .down = 1}) == kAnywhere);
  CHECK(ways({.width = 20, .height = 10, .components = 1}) == kAnywhere);
}

TEST_CASE("several scans need codes that are read on the CPU") {
  CHECK(ways({.width = 20, .height = 10, .frame = 0xc2}) == kHost);
  CHECK(ways({.width = 20, .height = 10, .frame = 0xc1}) == kHost);
  CHECK(ways({.width = 20, .height = 10, .scan_components = 1}) == kHost);
}

TEST_CASE("rare kinds, and data without an end, are the CPU's alone") {
  CHECK(ways({.width = 20, .height = 10, .components = 4}) == kCpu);
  CHECK(ways({.width = 20, .height = 10, .bits = 12}) == kCpu);
  CHECK(ways({.width = 20, .height = 10, .frame = 0xc3}) == kCpu);
  CHECK(ways({.width = 20, .height = 10, .frame = 0xc9}) == kCpu);
  CHECK(ways({.width = 20, .height = 10, .across = 4, .down = 1}) == kCpu);
  CHECK(ways({.width = 20, .height = 10, .end = false}) == kCpu);
}

TEST_CASE("three components are YCbCr where libjpeg says so") {
  CHECK(ways({.width = 20, .height = 10, .first_id = 'R', .jfif = false}) == kCpu);
  CHECK(ways({.width = 20, .height = 10, .first_id = 'R', .jfif = true}) == kAnywhere);
  CHECK(ways({.width = 20, .height = 10, .jfif = false, .adobe = 0}) == kCpu);
  CHECK(ways({.width = 20, .height = 10, .jfif = false, .adobe = 1}) == kAnywhere);
  CHECK(ways({.width = 20, .height = 10, .first_id = 0, .jfif = false}) == kAnywhere);
}

TEST_CASE("a header that is cut anywhere, or garbled, is refused or read, and nothing else") {
  const auto whole = test::jpeg({.width = 300, .height = 200, .adobe = 1});
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<long>(length));
    const auto header = read_jpeg_header(cut);
    if (header) CHECK(header->ways == kCpu);
  }
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const int value : {0, 1, 0x80, 0xff}) {
      auto garbled = whole;
      garbled[at] = static_cast<std::byte>(value);
      (void)read_jpeg_header(garbled);
    }
  CHECK_FALSE(read_jpeg_header(test::jpeg({.width = 0, .height = 10})));
  CHECK_FALSE(read_jpeg_header(test::jpeg({.width = 10, .height = 0})));
}

TEST_CASE("a slot has room for the pixels and for what kernels read behind them") {
  CHECK(row_bytes({500, 1}) == 1500);
  CHECK(slot_bytes({1, 1}) == 256);
  CHECK(slot_bytes({80, 1}) == 256);  // 240 bytes and 16
  CHECK(slot_bytes({81, 1}) == 512);
}

}  // namespace
}  // namespace batchflow::gpu
