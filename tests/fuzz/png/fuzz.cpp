// PNGs.
#include "core/check.h"
#include "runtime/prepare/decode.h"

using namespace batchflow;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto decoder = make_png_decoder();
  static PictureBuffer picture;
  if (!decoder->open(std::as_bytes(std::span(data, size)), {1 << 16})) return 0;
  const Extent2 extent = decoder->extent();
  const Box got = decoder->decode(whole(extent), picture);
  BF_CHECK(got.width == 0 || got == whole(extent));
  return 0;
}
