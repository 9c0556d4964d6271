// PNGs.
#include "core/base/check.h"
#include "runtime/prepare/decode.h"

namespace batchflow::test {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto decoder = prepare::make_png_decoder();
  static prepare::PictureBuffer picture;
  if (!decoder->open(std::as_bytes(std::span(data, size)), {1 << 16})) return 0;
  const prepare::Extent2 extent = decoder->extent();
  const prepare::Box got = decoder->decode(prepare::whole(extent), picture);
  BF_CHECK(got.width == 0 || got == prepare::whole(extent));
  return 0;
}

}  // namespace batchflow::test
