#include "runtime/sources/unzip.h"

#include <memory>
#include <vector>

#ifdef BATCHFLOW_GZIP
#include <zlib.h>
#endif
#ifdef BATCHFLOW_ZSTD
#include <zstd.h>
#endif

namespace batchflow::sources {
namespace {

constexpr std::size_t kIn = 1 << 20, kOut = 4 << 20;
// An MDS shard has offsets of 32 bits.
constexpr Bytes kMost = Bytes{1} << 32;
[[maybe_unused]] constexpr const char* kTooLarge = "it is larger than a shard can be";
[[maybe_unused]] constexpr const char* kDamaged = "it is damaged or cut; copy it again";

using Write = std::function<void(std::span<const std::byte>)>;

std::string unzip_gzip([[maybe_unused]] ByteView& file, [[maybe_unused]] const Write& write) {
#ifdef BATCHFLOW_GZIP
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) return "no memory to unpack it";
  const std::unique_ptr<z_stream, int (*)(z_stream*)> ends(&stream, inflateEnd);
  std::vector<std::byte> out(kOut);
  int state = Z_OK;
  Bytes written = 0;
  for (std::uint64_t at = 0; state != Z_STREAM_END;) {
    const auto in = file.view(at, kIn);
    if (in.empty()) return kDamaged;
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
    stream.avail_in = static_cast<uInt>(in.size());
    do {
      stream.next_out = reinterpret_cast<Bytef*>(out.data());
      stream.avail_out = static_cast<uInt>(out.size());
      state = inflate(&stream, Z_NO_FLUSH);
      if (state != Z_OK && state != Z_STREAM_END && state != Z_BUF_ERROR) return kDamaged;
      const std::size_t got = out.size() - stream.avail_out;
      if ((written += got) > kMost) return kTooLarge;
      write(std::span(out).first(got));
    } while (stream.avail_out == 0 && state != Z_STREAM_END);
    at += in.size() - stream.avail_in;
    if (stream.avail_in == in.size() && state != Z_STREAM_END) return kDamaged;
  }
  return "";
#else
  return "this BatchFlow was built without zlib; install zlib1g-dev and build it again, or unpack "
         "the shards";
#endif
}

std::string unzip_zstd([[maybe_unused]] ByteView& file, [[maybe_unused]] const Write& write) {
#ifdef BATCHFLOW_ZSTD
  const std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(),
                                                                             ZSTD_freeDStream);
  if (!stream) return "no memory to unpack it";
  std::vector<std::byte> out(kOut);
  std::size_t state = 1;
  Bytes written = 0;
  for (std::uint64_t at = 0; at < file.size();) {
    const auto bytes = file.view(at, kIn);
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    std::size_t got = out.size();
    while (in.pos < in.size || got == out.size()) {
      ZSTD_outBuffer to{out.data(), out.size(), 0};
      state = ZSTD_decompressStream(stream.get(), &to, &in);
      if (ZSTD_isError(state) != 0) return kDamaged;
      got = to.pos;
      if ((written += got) > kMost) return kTooLarge;
      write(std::span(out).first(got));
    }
    at += bytes.size();
  }
  return state == 0 ? "" : kDamaged;
#else
  return "this BatchFlow was built without zstd; install libzstd-dev and build it again, or unpack "
         "the shards";
#endif
}

}  // namespace

std::string unzip(ByteView& file, const Write& write) {
  const auto head = file.view(0, 4);
  if (head.size() == 4 && load<std::uint16_t>(head) == 0x8b1f) return unzip_gzip(file, write);
  if (head.size() == 4 && load<std::uint32_t>(head) == 0xfd2fb528) return unzip_zstd(file, write);
  return "it is compressed neither by gzip nor by zstd; unpack it";
}

}  // namespace batchflow::sources
