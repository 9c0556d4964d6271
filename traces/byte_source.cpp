#include "traces/byte_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "core/config_error.h"

namespace batchflow {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t kInputBytes = std::size_t{1} << 18;

bool is_zstd(std::string_view begin) {
  const bool skippable =
      begin.size() >= 4 && (begin[0] & 0xf0) == 0x50 && begin.substr(1, 3) == "\x2a\x4d\x18"sv;
  return skippable || begin.starts_with("\x28\xb5\x2f\xfd"sv);
}

}  // namespace

ByteSource::ByteSource(const std::string& path, std::function<void()> on_signal)
    : name_(path == "-" ? "standard input" : path),
      on_signal_(std::move(on_signal)),
      input_(kInputBytes) {
  try {
    open_file(path);
    input_end_ = read_file(input_.data(), input_.size());
    if (input_end_ == 0) fail("is empty; write at least one request");
  } catch (...) {
    if (descriptor_ > STDERR_FILENO) close(descriptor_);
    throw;
  }
  in_frame_ = is_zstd({input_.data(), input_end_});
  if (in_frame_) zstd_ = ZSTD_createDCtx();
}

ByteSource::~ByteSource() {
  ZSTD_freeDCtx(zstd_);
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

void ByteSource::fail_zstd(std::size_t error) const {
  if (frames_ > 0 && !in_frame_) {
    fail("has bytes after its zstd data that are none; cut them off or fetch the file again");
  }
  fail(fmt::format("is not valid zstd data ({}); compress it again", ZSTD_getErrorName(error)));
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
  if (zstd_ != nullptr) return read_zstd(to, bytes);
  const std::size_t kept = std::min(bytes, input_end_ - input_begin_);
  std::memcpy(to, input_.data() + input_begin_, kept);
  input_begin_ += kept;
  return kept + read_file(to + kept, bytes - kept);
}

std::size_t ByteSource::read_zstd(char* to, std::size_t bytes) {
  ZSTD_outBuffer out{to, bytes, 0};
  while (out.pos < out.size) {
    if (input_begin_ == input_end_) {
      input_begin_ = 0;
      input_end_ = read_file(input_.data(), input_.size());
    }
    const bool at_end = input_end_ == 0;
    ZSTD_inBuffer in{input_.data(), input_end_, input_begin_};
    const std::size_t before = out.pos;
    const std::size_t left = ZSTD_decompressStream(zstd_, &out, &in);
    if (ZSTD_isError(left)) fail_zstd(left);
    if (at_end && out.pos == before) {
      if (in_frame_) fail("the compressed data is cut short; fetch the whole file");
      break;
    }
    input_begin_ = in.pos;
    if (!at_end || out.pos != before) in_frame_ = left != 0;
    if (left == 0) ++frames_;
  }
  return out.pos;
}

}  // namespace batchflow
