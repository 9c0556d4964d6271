// Files that grow by what is appended: without a bound, or with one.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "core/base/types.h"
#include "runtime/protocol/descriptor.h"

namespace batchflow::service {

// A file that grows by what is appended.
class LogFile {
 public:
  // Opens the file and empties it.
  bool open(const std::filesystem::path& path);
  // The same; throws a ConfigError that says what to do.
  void open_or_throw(const std::filesystem::path& path);
  bool append(std::span<const std::byte> bytes);
  Bytes bytes() const { return bytes_; }  // that were appended
  bool sync() const;

 private:
  protocol::Descriptor file_;
  std::string problem_;  // of the last open()
  Bytes bytes_ = 0;
};

// A log file that never takes more than its bound. When half of the bound is full, it becomes
// FILE.1 instead of the one before, and a new file begins.
class RotatingFile {
 public:
  // Goes on with what is there. Throws ConfigError if it cannot be written.
  RotatingFile(std::filesystem::path path, Bytes bytes_most);
  // Appends the line and a line break. A line break comes first where the file ends within a line,
  // the rest of which could not be written. False: this line could not be written as a whole.
  bool append(std::string_view line);

 private:
  bool open();
  bool ends_within_a_line() const;

  const std::filesystem::path path_;
  const Bytes bytes_most_;  // of both files
  protocol::Descriptor file_;
  Bytes bytes_ = 0;
  bool is_within_line_ = false;  // its end is still to come
};

}  // namespace batchflow::service
