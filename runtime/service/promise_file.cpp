#include "runtime/service/promise_file.h"

#include <cstdio>
#include <utility>

namespace batchflow {

PromiseFile::PromiseFile(std::filesystem::path path, Bytes bytes_max)
    : path_(std::move(path)), log_(bytes_max) {
  file_.open_or_throw(path_);
}

void PromiseFile::write(std::span<const Promise> promises) {
  for (const Promise& promise : promises) log_.add(promise);
  if (log_.snapshot_due()) {
    log_.begin_anew();
    LogFile anew;
    const std::filesystem::path beside = path_.string() + ".new";
    if (anew.open(beside) && anew.append(log_.pending()) &&
        rename(beside.c_str(), path_.c_str()) == 0)
      file_ = std::move(anew);
  } else if (!log_.pending().empty()) {
    file_.append(log_.pending());
  }
  log_.clear_pending();
}

}  // namespace batchflow
