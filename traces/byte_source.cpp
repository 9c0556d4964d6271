#include "traces/byte_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "core/base/check.h"
#include "core/base/config_value.h"

namespace batchflow::traces {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t kInputBytes = std::size_t{1} << 18;

bool is_zstd(std::string_view begin) {
  const bool skippable =
      begin.size() >= 4 && (begin[0] & 0xf0) == 0x50 && begin.substr(1, 3) == "\x2a\x4d\x18"sv;
  return skippable || begin.starts_with("\x28\xb5\x2f\xfd"sv);
}

constexpr int kGzipWindow = 15 + 16;  // the largest window, and gzip's header and sum

z_stream gzip_input(std::string_view bytes) {
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  return stream;
}

// Binary records may begin with the same three bytes, so the bytes that follow must decompress.
bool is_gzip(std::string_view begin) {
  if (!begin.starts_with("\x1f\x8b\x08"sv)) return false;
  z_stream stream = gzip_input(begin);
  std::vector<char> scratch(std::size_t{1} << 16);
  stream.next_out = reinterpret_cast<Bytef*>(scratch.data());
  stream.avail_out = static_cast<uInt>(scratch.size());
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) throw std::bad_alloc();
  const int result = inflate(&stream, Z_NO_FLUSH);
  inflateEnd(&stream);
  return result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR;
}

}  // namespace

ByteSource::ByteSource(const std::string& path, std::function<void()> on_signal)
    : name_(path == "-" ? "standard input" : path),
      on_signal_(std::move(on_signal)),
      input_(kInputBytes) {
  try {
    open_file(path);
    input_end_ = read_file(input_.data(), input_.size());
    if (input_end_ == 0) fail("is empty; write at least one line or record");
  } catch (...) {
    if (descriptor_ > STDERR_FILENO) close(descriptor_);
    throw;
  }
  const std::string_view begin(input_.data(), input_end_);
  if (is_zstd(begin)) {
    zstd_ = ZSTD_createDCtx();
  } else if (is_gzip(begin)) {
    gzip_ = new z_stream{};
    if (inflateInit2(gzip_, kGzipWindow) != Z_OK) throw std::bad_alloc();
  }
  in_frame_ = compressed();
}

ByteSource::~ByteSource() {
  ZSTD_freeDCtx(zstd_);
  if (gzip_ != nullptr) inflateEnd(gzip_);
  delete gzip_;
  if (descriptor_ > STDERR_FILENO) close(descriptor_);
}

void ByteSource::open_file(const std::string& path) {
  struct stat status {};
  if (path == "-") {
    descriptor_ = STDIN_FILENO;
  } else if (stat(path.c_str(), &status) != 0) {
    fail(fmt::format("{}; name a trace file that exists, - for standard input, or gen:help",
                     std::strerror(errno)));
  } else if (S_ISDIR(status.st_mode)) {
    fail("is a directory; name a trace file");
  }
  while (descriptor_ < 0) {
    descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);  // waits for the writer of a pipe
    if (descriptor_ >= 0) break;
    if (errno != EINTR) {
      fail(fmt::format("cannot be read: {}; check its permissions", std::strerror(errno)));
    }
    if (on_signal_) on_signal_();
  }
  if (fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode)) {
    file_bytes_ = static_cast<std::uint64_t>(status.st_size);
  }
}

void ByteSource::fail(const std::string& what) const {
  throw ConfigError(fmt::format("{}: {}", name_, what));
}

void ByteSource::fail_compressed(std::string_view kind, std::string_view error) const {
  if (frames_ > 0 && !in_frame_) {
    fail(fmt::format("has other bytes after its {} data; cut them off or fetch the file again",
                     kind));
  }
  fail(fmt::format("is not valid {} data ({}); compress it again", kind, error));
}

double ByteSource::progress() const {
  if (file_bytes_ == 0) return -1;
  return static_cast<double>(bytes_read_) / static_cast<double>(file_bytes_);
}

std::size_t ByteSource::read_file(char* to, std::size_t bytes) {
  std::size_t got = 0;
  while (got < bytes) {
    const ssize_t n = ::read(descriptor_, to + got, bytes - got);
    if (n == 0) break;
    if (n > 0) {
      got += static_cast<std::size_t>(n);
    } else if (errno != EINTR) {
      fail(fmt::format("cannot be read: {}; check the device", std::strerror(errno)));
    } else if (on_signal_) {
      on_signal_();
    }
  }
  bytes_read_ += got;
  return got;
}

std::size_t ByteSource::read(char* to, std::size_t bytes) {
  if (compressed()) return read_compressed(to, bytes);
  const std::size_t kept = std::min(bytes, input_end_ - input_begin_);
  std::memcpy(to, input_.data() + input_begin_, kept);
  input_begin_ += kept;
  return kept + read_file(to + kept, bytes - kept);
}

std::size_t ByteSource::read_compressed(char* to, std::size_t bytes) {
  std::size_t made = 0;
  while (made < bytes) {
    if (input_begin_ == input_end_) {
      input_begin_ = 0;
      input_end_ = read_file(input_.data(), input_.size());
    }
    const bool at_end = input_end_ == 0;
    const std::size_t more =
        zstd_ != nullptr ? step_zstd(to + made, bytes - made) : step_gzip(to + made, bytes - made);
    made += more;
    if (at_end && more == 0) {
      if (in_frame_) fail("the compressed data is cut short; fetch the whole file");
      break;
    }
  }
  return made;
}

std::size_t ByteSource::step_zstd(char* to, std::size_t room) {
  const bool at_end = input_end_ == 0;
  ZSTD_outBuffer out{to, room, 0};
  ZSTD_inBuffer in{input_.data(), input_end_, input_begin_};
  const std::size_t left = ZSTD_decompressStream(zstd_, &out, &in);
  if (ZSTD_isError(left)) fail_compressed("zstd", ZSTD_getErrorName(left));
  input_begin_ = in.pos;
  if (!at_end || out.pos != 0) in_frame_ = left != 0;
  if (left == 0) ++frames_;
  return out.pos;
}

std::size_t ByteSource::step_gzip(char* to, std::size_t room) {
  if (input_end_ == 0 && !in_frame_) return 0;
  const z_stream in = gzip_input({input_.data() + input_begin_, input_end_ - input_begin_});
  gzip_->next_in = in.next_in;
  gzip_->avail_in = in.avail_in;
  gzip_->next_out = reinterpret_cast<Bytef*>(to);
  gzip_->avail_out = static_cast<uInt>(std::min<std::size_t>(room, 1u << 30));
  const uInt before = gzip_->avail_out;
  const int result = inflate(gzip_, Z_NO_FLUSH);
  if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
    fail_compressed("gzip", gzip_->msg != nullptr ? gzip_->msg : "damaged");
  }
  input_begin_ = input_end_ - gzip_->avail_in;
  in_frame_ = result != Z_STREAM_END;
  const std::size_t made = before - gzip_->avail_out;
  if (!in_frame_) {  // another frame may follow
    ++frames_;
    inflateReset(gzip_);
  }
  return made;
}

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
