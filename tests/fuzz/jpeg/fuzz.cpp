// JPEGs: for any input, a decoded part equals that part of the whole picture and of libjpeg's, and
// either all three are corrupt or none is.
#include <cstring>

#include "core/base/check.h"
#include "core/base/random.h"
#include "runtime/prepare/decode.h"

namespace batchflow::test {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto decoder = prepare::make_jpeg_decoder();
  static const auto library = prepare::make_jpeg_decoder(prepare::JpegScans::of_library);
  static prepare::PictureBuffer all, part, reference;
  const auto bytes = std::as_bytes(std::span(data, size));
  const prepare::DecodeLimits limits{1 << 16};
  if (!decoder->open(bytes, limits)) return 0;
  const prepare::Extent2 extent = decoder->extent();
  const bool good = decoder->decode(prepare::whole(extent), all).width != 0;
  BF_CHECK(library->open(bytes, limits));
  const bool taken = library->decode(prepare::whole(extent), reference).width != 0;
  // libjpeg-turbo accepts codes that do not exist, unless they are near an end. Sometimes it takes
  // two bytes 0xff before a zero for one.
  constexpr std::uint8_t kTwice[] = {0xff, 0xff, 0};
  BF_CHECK(taken == good || (taken && (decoder->problem().ends_with("bad Huffman code") ||
                                       memmem(data, size, kTwice, sizeof kTwice))));

  Random random(hash(size, extent.width, extent.height));
  const auto below = [&random](int n) {
    return static_cast<int>(random.below(static_cast<std::uint64_t>(n)));
  };
  prepare::Box wanted{0, 0, 1 + below(extent.width), 1 + below(extent.height)};
  wanted.x = below(extent.width - wanted.width + 1);
  wanted.y = below(extent.height - wanted.height + 1);
  BF_CHECK(decoder->open(bytes, limits));
  const prepare::Box got = decoder->decode(wanted, part);
  BF_CHECK((got.width != 0) == good);
  if (!good) return 0;
  for (int y = 0; y < extent.height; ++y)
    BF_CHECK(std::memcmp(all.row(y), reference.row(y),
                         static_cast<std::size_t>(extent.width) * prepare::kChannels) == 0);
  const prepare::Box inside{wanted.x - got.x, wanted.y - got.y, wanted.width, wanted.height};
  const prepare::PictureView expected = all.view().part(wanted), shown = part.view().part(inside);
  for (int y = 0; y < wanted.height; ++y)
    BF_CHECK(std::memcmp(expected.row(y), shown.row(y),
                         static_cast<std::size_t>(wanted.width) * prepare::kChannels) == 0);
  return 0;
}

}  // namespace batchflow::test
