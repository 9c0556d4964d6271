#include "runtime/service/promise_file.h"

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "runtime/failpoint/failpoint.h"

namespace batchflow {

namespace {
constexpr std::size_t kCommitBytes = 4096;
}

PromiseFile::PromiseFile(std::filesystem::path path, Bytes bytes_max)
    : path_(std::move(path)), log_(bytes_max) {
  file_.open_or_throw(path_);
}

void PromiseFile::write(std::span<const Promise> promises) {
  for (const Promise& promise : promises) {
    log_.add(promise);
    is_due_ = is_due_ || promise.kind != Promise::Kind::committed;
  }
  if (is_due_ || is_behind_ || log_.pending().size() >= kCommitBytes) put(!promises.empty());
}

void PromiseFile::flush() {
  if (!log_.pending().empty()) put(true);
}

void PromiseFile::put(bool is_more) {
  is_due_ = false;
  // What stands behind a record that was cut off would be taken for damage.
  const bool was_behind = is_behind_;
  const bool anew = log_.snapshot_due() || (was_behind && is_more);
  if (anew) {
    is_behind_ = !write_anew();
  } else if (!was_behind && !log_.pending().empty()) {
    is_behind_ = !file_.append(log_.pending());
  }
  if (is_behind_ && !was_behind)
    problem_ = fmt::format(
        "{}: cannot be written: {}; the service goes on, and writes it anew when it can: make room",
        path_.string(), std::generic_category().message(errno));
  log_.clear_pending();
}

// A whole one beside it, and then in its place.
bool PromiseFile::write_anew() {
  log_.begin_anew();
  LogFile anew;
  const std::filesystem::path beside = path_.string() + ".new";
  if (!anew.open(beside) || !anew.append(log_.pending())) return false;
  if (BF_FAILPOINT("service.promises.rename")) return errno = EIO, false;
  if (rename(beside.c_str(), path_.c_str()) != 0) return false;
  file_ = std::move(anew);
  return true;
}

std::string PromiseFile::take_problem() {
  return std::exchange(problem_, {});
}

}  // namespace batchflow
