// The engine's promises in a file, written before what they promise is carried out.
#pragma once

#include <filesystem>
#include <span>

#include "core/promise_log.h"
#include "runtime/service/log_file.h"

namespace batchflow {

class PromiseFile {
 public:
  // Throws ConfigError.
  PromiseFile(std::filesystem::path path, Bytes bytes_max);
  void write(std::span<const Promise> promises);

 private:
  const std::filesystem::path path_;
  PromiseLog log_;
  LogFile file_;
};

}  // namespace batchflow
