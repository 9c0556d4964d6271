// The engine's promises in a file, written before what they promise is carried out. That a job has
// trained on a batch promises nothing more: such commits are written some at a time, or by flush().
//
// Where they cannot be written the service goes on, and the file is behind what was promised, until
// it can be written anew as a whole, which is tried with the next promise.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "core/promise_log.h"
#include "runtime/service/log_file.h"

namespace batchflow {

class PromiseFile {
 public:
  // Throws ConfigError.
  PromiseFile(std::filesystem::path path, Bytes bytes_max);
  ~PromiseFile() { flush(); }
  void write(std::span<const Promise> promises);
  void flush();
  // Why the file is behind: once for each time it comes to be, then empty.
  std::string take_problem();

 private:
  void put(bool is_more);
  bool write_anew();

  const std::filesystem::path path_;
  PromiseLog log_;
  LogFile file_;
  bool is_due_ = false;  // something beside commits waits
  bool is_behind_ = false;
  std::string problem_;
};

}  // namespace batchflow
