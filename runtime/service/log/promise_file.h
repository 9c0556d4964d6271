// The engine's promises in a file, written before what they promise is carried out. That a job has
// trained on a batch promises nothing more: such commits are written some at a time, or by flush().
//
// If they cannot be written the service goes on, and the file is behind what was promised until it
// can be written anew as a whole, which is tried with the next promise. The file begins with what
// the previous service left in it: jobs that may come back.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "core/log/promise_log.h"
#include "runtime/service/log/log_file.h"

namespace batchflow::service {

class PromiseFile {
 public:
  using Names = std::function<std::string(JobId)>;  // of jobs that join; empty: none
  // Throws ConfigError if it cannot be written. A damaged file is put aside.
  PromiseFile(std::filesystem::path path, Bytes bytes_max, Names names);
  ~PromiseFile() { flush(); }
  void write(std::span<const engine::Promise> promises);
  // A job of the previous service will not come back, or has come back.
  void end(JobId job);
  void flush();
  const log::Promises& promises() const { return log_.promises(); }
  // Why the file is behind: once for each time that it falls behind, then empty.
  std::string take_problem();

 private:
  log::Promises recovered(Bytes bytes_max);
  void put(bool is_more);
  bool write_anew();
  void fall_behind();

  const std::filesystem::path path_;
  const Names names_;
  std::string problem_;
  log::PromiseLog log_;
  LogFile file_;
  bool is_due_ = false;  // something beside commits waits
  bool is_behind_ = false;
};

}  // namespace batchflow::service
