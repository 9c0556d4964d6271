// A file that grows by what is appended.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "core/base/types.h"
#include "runtime/protocol/descriptor.h"

namespace batchflow::service {

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

}  // namespace batchflow::service
