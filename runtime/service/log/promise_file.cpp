#include "runtime/service/log/promise_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/protocol/descriptor.h"

namespace batchflow::service {

namespace {
constexpr std::size_t kCommitBytes = 4096;

std::filesystem::path beside_of(const std::filesystem::path& path) {
  return path.string() + ".new";
}

// A log begins anew at `bytes_max`, or at twice a snapshot, which is larger where jobs read very
// many samples.
Bytes bytes_most(Bytes bytes_max) {
  constexpr Bytes kLeast = Bytes{128} << 20, kTimes = 8;
  return std::max(kLeast, bytes_max > UINT64_MAX / kTimes ? UINT64_MAX : bytes_max * kTimes);
}

struct LogBytes {
  std::string bytes;
  Bytes size = 0;  // of the file: nothing of one that is too large is read
};

// Nothing where there is none. Throws ConfigError.
LogBytes read_log(const std::string& path, Bytes most) {
  std::string problem;
  const protocol::Descriptor file = protocol::open_regular(path, O_RDONLY, problem);
  if (!file && errno == ENOENT) return {};
  struct stat status {};
  LogBytes found;
  if (file && fstat(file.get(), &status) == 0) found.size = static_cast<Bytes>(status.st_size);
  if (found.size > most) return found;
  std::string& bytes = found.bytes;
  bytes.reserve(found.size);
  std::array<char, 1 << 16> some{};
  for (ssize_t got = 1; file && got != 0;) {
    got = read(file.get(), some.data(), std::min<Bytes>(some.size(), most - bytes.size()));
    if (got > 0) bytes.append(some.data(), static_cast<std::size_t>(got));
    if (got >= 0 || errno == EINTR) continue;
    problem = std::generic_category().message(errno);
    break;
  }
  if (!problem.empty())
    throw ConfigError(fmt::format(
        "{}: which jobs may come back stands there, and it cannot be read: {}; move it away, or "
        "choose another path (--state)",
        path, problem));
  return found;
}

}  // namespace

// The old file stays until the new one is whole.
PromiseFile::PromiseFile(Place place, Bytes bytes_max, Names names)
    : place_(std::move(place)), names_(std::move(names)), log_(bytes_max, recovered(bytes_max)) {
  const std::filesystem::path beside = beside_of(place_.path);
  file_.open_or_throw(beside);
  if (!append(file_) || rename(beside.c_str(), place_.path.c_str()) != 0) fall_behind();
  log_.clear_pending();
}

bool PromiseFile::append(LogFile& file) const {
  return file.append(log_.pending()) && (!place_.is_shared || file.sync());
}

log::Promises PromiseFile::recovered(Bytes bytes_max) {
  if (place_.previous.empty()) return {};
  const std::string path = place_.previous;
  const Bytes most = bytes_most(bytes_max);
  const LogBytes read = read_log(path, most);
  const std::string& bytes = read.bytes;
  if (read.size == 0 && bytes.empty()) return {};
  try {
    if (read.size > most)
      throw ConfigError(fmt::format(
          "{}: it has {} bytes, and a log of promises at most {} (promise_log_bytes_max)", path,
          read.size, most));
    log::RecoveredPromises found = log::recover_promises(std::as_bytes(std::span(bytes)), path);
    if (found.hole != 0)
      problem_ = fmt::format(
          "{}: there are zeros from byte {} on where promises were, and {} bytes behind what is "
          "whole are given up, as after a machine that stopped; jobs may come back to where they "
          "were before that: compare with their checkpoints",
          path, found.hole, found.bytes_cut);
    return std::move(found.promises);
  } catch (const ConfigError& error) {
    const std::filesystem::path aside = path + ".damaged";
    rename(path.c_str(), aside.c_str());
    problem_ = fmt::format("{}; it is put aside as {}, and which jobs may come back is not known",
                           error.what(), aside.string());
    return {};
  }
}

void PromiseFile::write(std::span<const engine::Promise> promises) {
  for (const engine::Promise& promise : promises) {
    if (promise.kind == engine::Promise::Kind::joined) {
      engine::Promise named = promise;
      named.join.name = names_(promise.job);
      log_.add(named);
    } else {
      log_.add(promise);
    }
    // A job knows where it is, but not what its buffer has.
    is_due_ = is_due_ || promise.kind != engine::Promise::Kind::committed || !promise.kept.empty();
  }
  if (is_due_ || is_behind_ || log_.pending().size() >= kCommitBytes) put(!promises.empty());
}

void PromiseFile::end(JobId job) {
  engine::Promise promise;
  promise.kind = engine::Promise::Kind::left;
  promise.job = job;
  log_.add(promise);
  is_due_ = true;
}

void PromiseFile::flush() {
  if (!log_.pending().empty()) put(true);
}

void PromiseFile::put(bool is_more) {
  is_due_ = false;
  // What stands behind a record that was cut off would look like damage.
  const bool anew = log_.snapshot_due() || (is_behind_ && is_more);
  bool is_written = true;
  if (anew) {
    is_written = write_anew();
    is_behind_ = is_behind_ && !is_written;
  } else if (!is_behind_ && !log_.pending().empty()) {
    is_written = append(file_);
  }
  if (!is_written) fall_behind();
  log_.clear_pending();
}

void PromiseFile::fall_behind() {
  if (!is_behind_)
    problem_ = fmt::format("{}: cannot be written: {}; {}", place_.path.string(),
                           std::generic_category().message(errno),
                           place_.is_shared
                               ? "this node coordinates no more: make room"
                               : "the service goes on, and writes it anew when it can: make room");
  is_behind_ = true;
  unlink(beside_of(place_.path).c_str());  // what is not whole takes room
}

// Writes a whole file beside the old one, and then puts it in its place.
bool PromiseFile::write_anew() {
  log_.begin_anew();
  LogFile anew;
  const std::filesystem::path beside = beside_of(place_.path);
  if (!anew.open(beside) || !append(anew)) return false;
  if (BF_FAILPOINT("service.promises.rename")) return errno = EIO, false;
  if (rename(beside.c_str(), place_.path.c_str()) != 0) return false;
  file_ = std::move(anew);
  return true;
}

std::string PromiseFile::take_problem() {
  return std::exchange(problem_, {});
}

}  // namespace batchflow::service
