// The bytes of a trace file or of standard input, and of a file that is written. Bytes that are
// read are decompressed if they are compressed with zstd or gzip, which the first bytes show, not
// the name.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

struct ZSTD_DCtx_s;
struct z_stream_s;

namespace batchflow::traces {

class ByteSource {
 public:
  // `-` is standard input. `on_signal` is called when a signal ends a wait; if it does not throw,
  // the wait goes on. Throws ConfigError when the file cannot be read or is empty.
  explicit ByteSource(const std::string& path, std::function<void()> on_signal = {});
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;

  // Fills `to` as far as there are bytes; returns less than `bytes` only at the end. Throws
  // ConfigError when the file cannot be read on, or its compressed data is broken or cut.
  std::size_t read(char* to, std::size_t bytes);

  std::uint64_t file_bytes() const { return file_bytes_; }  // 0: not known (a pipe)
  bool compressed() const { return zstd_ != nullptr || gzip_ != nullptr; }
  // Share of the file that has been read, less than 0 when not known.
  double progress() const;

 private:
  void open_file(const std::string& path);
  std::size_t read_file(char* to, std::size_t bytes);
  std::size_t read_compressed(char* to, std::size_t bytes);
  // Decompress what was read of the file; they return how many bytes they made.
  std::size_t step_zstd(char* to, std::size_t room);
  std::size_t step_gzip(char* to, std::size_t room);
  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void fail_compressed(std::string_view kind, std::string_view error) const;

  std::string name_;
  std::function<void()> on_signal_;
  int descriptor_ = -1;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t bytes_read_ = 0;
  std::vector<char> input_;  // read from the file and not yet used
  std::size_t input_begin_ = 0;
  std::size_t input_end_ = 0;
  ZSTD_DCtx_s* zstd_ = nullptr;
  z_stream_s* gzip_ = nullptr;
  bool in_frame_ = false;     // the compressed data must not end here
  std::uint64_t frames_ = 0;  // that have ended
};

// The bytes of `text` in a file of that name: compressed where the name ends in .zst or .gz. The
// same text gives the same bytes.
std::string encoded_for(std::string_view path, std::string text);

}  // namespace batchflow::traces
