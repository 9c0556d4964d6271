// BMP, WebP, TIFF and AVIF.
#include "core/base/check.h"
#include "runtime/prepare/picture_kinds.h"

namespace batchflow::test {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static prepare::PictureDecoders decoders;
  static prepare::PictureBuffer picture;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (prepare::is_jpeg(bytes) || prepare::is_png(bytes)) return 0;
  prepare::Decoder* const decoder = decoders.find(bytes);
  if (decoder && decoder->open(bytes, {1 << 16})) {
    const prepare::Extent2 extent = decoder->extent();
    const prepare::Box got = decoder->decode(prepare::whole(extent), picture);
    BF_CHECK(got.width == 0 || got == prepare::whole(extent));
    BF_CHECK(decoder->problem().empty() == (got.width != 0));
  } else {
    BF_CHECK(!(decoder ? decoder->problem() : decoders.problem()).empty());
  }
  decoders.end();
  return 0;
}

}  // namespace batchflow::test
