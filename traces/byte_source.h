// The bytes of a trace file, decompressed where it is compressed with zstd (known by its first
// bytes, not by its name).
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

struct ZSTD_DCtx_s;

namespace batchflow {

class ByteSource {
 public:
  // Throws ConfigError when the file cannot be read or is empty.
  explicit ByteSource(const std::string& path);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;

  // Fills `to` as far as there are bytes; less than `bytes` only at the end.
  // Throws ConfigError when the file cannot be read on, or its compressed data is broken or cut.
  std::size_t read(char* to, std::size_t bytes);

  std::uint64_t file_bytes() const { return file_bytes_; }  // 0: not known (a pipe)
  bool compressed() const { return zstd_ != nullptr; }
  // Share of the file that has been read, less than 0 when not known.
  double progress() const;

 private:
  std::size_t read_file(char* to, std::size_t bytes);
  std::size_t read_zstd(char* to, std::size_t bytes);
  [[noreturn]] void fail(const std::string& what) const;

  std::string path_;
  std::FILE* file_ = nullptr;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t bytes_read_ = 0;
  std::vector<char> input_;  // read from the file and not handed on
  std::size_t input_begin_ = 0;
  std::size_t input_end_ = 0;
  ZSTD_DCtx_s* zstd_ = nullptr;
  bool in_frame_ = false;  // the compressed data must not end here
};

}  // namespace batchflow
