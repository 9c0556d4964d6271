#include "traces/compress.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <new>

#include "core/base/check.h"

namespace batchflow::traces {
namespace {

std::string zstd(std::string_view text) {
  constexpr int kLevel = 3;
  std::string result(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size =
      ZSTD_compress(result.data(), result.size(), text.data(), text.size(), kLevel);
  if (ZSTD_isError(size)) throw std::bad_alloc();  // with room for any result, nothing else fails
  result.resize(size);
  return result;
}

std::string gzip(std::string_view text) {
  constexpr int kWindow = 15 + 16, kMemoryLevel = 8;
  constexpr std::size_t kAtOnce = std::size_t{1} << 30;  // zlib counts in 32 bits
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kWindow, kMemoryLevel,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
  std::string result;
  char buffer[1 << 16];
  int state = Z_OK;
  while (state != Z_STREAM_END) {
    const std::size_t more = std::min(text.size(), kAtOnce);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(more);
    stream.next_out = reinterpret_cast<Bytef*>(buffer);
    stream.avail_out = sizeof buffer;
    state = deflate(&stream, more == text.size() ? Z_FINISH : Z_NO_FLUSH);
    BF_CHECK(state == Z_OK || state == Z_STREAM_END || state == Z_BUF_ERROR);
    text.remove_prefix(more - stream.avail_in);
    result.append(buffer, sizeof buffer - stream.avail_out);
  }
  deflateEnd(&stream);
  return result;
}

}  // namespace

std::string encoded_for(std::string_view path, std::string text) {
  if (path.ends_with(".zst") || path.ends_with(".zstd")) return zstd(text);
  if (path.ends_with(".gz")) return gzip(text);
  return text;
}

}  // namespace batchflow::traces
