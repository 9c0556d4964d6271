// Encoded pictures, from any source, into RGB, as Pillow's convert("RGB") makes it.
//
// The cost of an input is in proportion to the pixels that its header claims, and those are
// bounded. What it takes at most is known once its header has been read. A picture is also corrupt
// when its data ends early or does not decode, though most decoders would show something.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/prepare/picture.h"

namespace batchflow::prepare {

struct DecodeLimits {
  std::uint64_t pixels_most = std::uint64_t{1} << 26;
  // Each pass over a progressive picture costs time, and may take only a few bytes.
  static constexpr int kScansMost = 100;
};

// A decoder of one kind of encoding, for one thread.
class Decoder {
 public:
  virtual ~Decoder() = default;

  // Reads the header. `bytes` must stay until `decode` is done. False: see problem().
  virtual bool open(std::span<const std::byte> bytes, const DecodeLimits& limits) = 0;
  // REQUIRES: open() was the last call and said true
  virtual Extent2 extent() const = 0;
  // How large a picture decode(wanted) makes at most, and what else it takes at most.
  virtual Extent2 decoded_most(const Box& wanted) const = 0;
  virtual Bytes needs(const Box& wanted) const = 0;
  // Decodes at least `wanted`. Answers which part it has decoded, or an empty box. It looks at all
  // of the input, so that whether it is corrupt does not depend on the part. Throws std::bad_alloc.
  virtual Box decode(const Box& wanted, PictureBuffer& out) = 0;
  virtual std::string_view problem() const = 0;
  // Whether open() or decode() failed for want of memory: the picture may be intact.
  virtual bool ran_out_of_memory() const = 0;

  // Ends the work on this picture: gives up what was taken for it alone.
  virtual void end() = 0;
  // What stays for the next picture, until drop().
  virtual Bytes held() const = 0;
  virtual void drop() = 0;
};

// What reads the codes of a JPEG: our code or the library. The pixels are the same; of a damaged
// picture the library shows a little more (docs/pipelines.md).
enum class JpegScans { own, of_library };
std::unique_ptr<Decoder> make_jpeg_decoder(JpegScans scans = JpegScans::own);
std::unique_ptr<Decoder> make_png_decoder();
// Colours, or the numbers that pixels are stored as (mask.h).
enum class PngPixels { colours, values };
std::unique_ptr<Decoder> make_png_decoder(PngPixels pixels);
std::unique_ptr<Decoder> make_bmp_decoder();
// Where the build has their libraries (picture_kinds.h).
#ifdef BATCHFLOW_WEBP
std::unique_ptr<Decoder> make_webp_decoder();
#endif
#ifdef BATCHFLOW_TIFF
std::unique_ptr<Decoder> make_tiff_decoder();
#endif
#ifdef BATCHFLOW_AVIF
std::unique_ptr<Decoder> make_avif_decoder();
#endif

bool is_jpeg(std::span<const std::byte> bytes);
bool is_png(std::span<const std::byte> bytes);
bool is_bmp(std::span<const std::byte> bytes);

// Names the library that decides the pixels of a JPEG by its arithmetic.
std::string jpeg_build();

}  // namespace batchflow::prepare
