#include "traces/byte_source.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/config_error.h"

namespace batchflow {
namespace {

constexpr std::size_t kInputBytes = std::size_t{1} << 18;
constexpr unsigned char kZstdMagic[] = {0x28, 0xb5, 0x2f, 0xfd};

}  // namespace

ByteSource::ByteSource(const std::string& path) : path_(path), input_(kInputBytes) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    fail(fmt::format("{}; name a trace file that exists, or gen:help", std::strerror(errno)));
  }
  if (S_ISDIR(status.st_mode)) fail("is a directory; name a trace file");
  file_ = std::fopen(path.c_str(), "rb");
  if (file_ == nullptr) {
    fail(fmt::format("cannot be read: {}; check its permissions", std::strerror(errno)));
  }
  std::setvbuf(file_, nullptr, _IONBF, 0);
  if (S_ISREG(status.st_mode)) file_bytes_ = static_cast<std::uint64_t>(status.st_size);
  try {
    input_end_ = read_file(input_.data(), input_.size());
    if (input_end_ == 0) fail("is empty; write at least one request");
  } catch (...) {
    std::fclose(file_);
    throw;
  }
  if (input_end_ >= sizeof(kZstdMagic) &&
      std::memcmp(input_.data(), kZstdMagic, sizeof(kZstdMagic)) == 0) {
    zstd_ = ZSTD_createDCtx();
  }
}

ByteSource::~ByteSource() {
  ZSTD_freeDCtx(zstd_);
  std::fclose(file_);
}

void ByteSource::fail(const std::string& what) const {
  throw ConfigError(fmt::format("{}: {}", path_, what));
}

double ByteSource::progress() const {
  if (file_bytes_ == 0) return -1;
  return static_cast<double>(bytes_read_) / static_cast<double>(file_bytes_);
}

std::size_t ByteSource::read_file(char* to, std::size_t bytes) {
  std::size_t got = 0;
  while (got < bytes) {
    const std::size_t n = std::fread(to + got, 1, bytes - got, file_);
    if (n == 0 && std::ferror(file_)) {
      fail(fmt::format("cannot be read: {}; check the device", std::strerror(errno)));
    }
    if (n == 0) break;
    got += n;
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
    if (ZSTD_isError(left)) {
      fail(fmt::format("is not valid zstd data ({}); compress it again", ZSTD_getErrorName(left)));
    }
    if (at_end && out.pos == before) {
      if (in_frame_) fail("the compressed data is cut short; fetch the whole file");
      break;
    }
    input_begin_ = in.pos;
    if (!at_end || out.pos != before) in_frame_ = left != 0;
  }
  return out.pos;
}

}  // namespace batchflow
