// The engine's promises in a file, written before what they promise is carried out. A commit
// promises nothing more, unless the job's buffer kept some of the batch. So commits are written
// some at a time, or by flush().
//
// If they cannot be written the service goes on, and the file is behind what was promised until it
// can be written anew as a whole, which is tried with the next promise. The file begins with what
// the previous service left: jobs that may come back.
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
  struct Place {
    std::filesystem::path path;
    // Of the previous service; empty: there was none. A damaged file is put aside.
    std::filesystem::path previous = path;
    bool is_shared = false;  // other machines must be able to read what was written
  };
  // Throws ConfigError if it cannot be written.
  PromiseFile(Place place, Bytes bytes_max, Names names);
  ~PromiseFile() { flush(); }
  void write(std::span<const engine::Promise> promises);
  // A job of the previous service will not come back, or has come back.
  void end(JobId job);
  void flush();
  const log::Promises& promises() const { return log_.promises(); }
  bool is_behind() const { return is_behind_; }
  // Why the file is behind: once for each time that it falls behind, then empty.
  std::string take_problem();

 private:
  log::Promises recovered(Bytes bytes_max);
  void put(bool is_more);
  bool append(LogFile& file) const;
  bool write_anew();
  void fall_behind();

  const Place place_;
  const Names names_;
  std::string problem_;
  log::PromiseLog log_;
  LogFile file_;
  bool is_due_ = false;     // something beside commits waits
  bool is_behind_ = false;  // the file lacks what was promised
};

}  // namespace batchflow::service
