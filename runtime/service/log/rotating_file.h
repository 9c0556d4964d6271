// A log file that never takes more than its bound. When half of the bound is full, it becomes
// FILE.1 in place of the one before, and a new file begins.
#pragma once

#include <filesystem>
#include <string_view>

#include "core/base/types.h"
#include "runtime/protocol/descriptor.h"

namespace batchflow::service {

class RotatingFile {
 public:
  // Goes on with what is there. Throws ConfigError if it cannot be written.
  RotatingFile(std::filesystem::path path, Bytes bytes_most);
  // Appends the line and a line break. False: it could not be written as a whole.
  bool append(std::string_view line);

 private:
  bool open();

  const std::filesystem::path path_;
  const Bytes bytes_most_;  // of both files
  protocol::Descriptor file_;
  Bytes bytes_ = 0;
};

}  // namespace batchflow::service
