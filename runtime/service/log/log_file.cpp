#include "runtime/service/log/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/protocol/descriptor.h"

namespace batchflow::service {

bool LogFile::open(const std::filesystem::path& path) {
  file_ = protocol::open_regular(path.string(), O_WRONLY | O_CREAT | O_TRUNC, problem_);
  if (BF_FAILPOINT("service.log.open")) {
    file_.reset();
    errno = EIO;
    problem_ = std::generic_category().message(errno);
  }
  bytes_ = 0;
  return static_cast<bool>(file_);
}

void LogFile::open_or_throw(const std::filesystem::path& path) {
  if (!open(path))
    throw ConfigError(fmt::format("{}: cannot be written: {}; choose another path (--state)",
                                  path.string(), problem_));
}

bool LogFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t written = write(file_.get(), bytes.data(),
                            BF_FAILPOINT_SHORT("service.log.write.short", bytes.size()));
    if (BF_FAILPOINT("service.log.write")) {
      written = -1;
      errno = ENOSPC;
    }
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    bytes_ += static_cast<Bytes>(written);
  }
  return true;
}

bool LogFile::sync() const {
  if (BF_FAILPOINT("service.log.sync")) return errno = EIO, false;
  return fdatasync(file_.get()) == 0;
}

RotatingFile::RotatingFile(std::filesystem::path path, Bytes bytes_most)
    : path_(std::move(path)), bytes_most_(bytes_most) {
  if (!open())
    throw ConfigError(fmt::format("log_file: {}: cannot be written: {}; choose another file",
                                  path_.string(), std::generic_category().message(errno)));
}

// Whether a file of so many bytes ends within a line, as after a machine that stopped. Where that
// cannot be read it may.
bool RotatingFile::ends_within_a_line() const {
  if (bytes_ == 0) return false;
  const protocol::Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  char last = 0;
  return !file || pread(file.get(), &last, 1, static_cast<off_t>(bytes_ - 1)) != 1 || last != '\n';
}

bool RotatingFile::open() {
  // O_NONBLOCK: opening a pipe without a reader must not wait.
  file_ = protocol::Descriptor(
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0640));
  struct stat status = {};
  if (!file_ || fstat(file_.get(), &status) != 0) return false;
  bytes_ = static_cast<Bytes>(status.st_size);
  is_within_line_ = ends_within_a_line();
  return true;
}

bool RotatingFile::append(std::string_view line) {
  const Bytes bytes = line.size() + 1 + (is_within_line_ ? 1 : 0);
  if (bytes_ > 0 && bytes_ + bytes > bytes_most_ / 2) {
    std::error_code error;
    std::filesystem::rename(path_, path_.string() + ".1", error);
    // If the full file cannot be renamed, no more is written: the bound holds.
    if (error || !open()) return false;
  }
  const std::string text =
      (is_within_line_ ? "\n" : "") + std::string(line.substr(0, bytes_most_ / 2)) + '\n';
  const ssize_t written = file_ ? write(file_.get(), text.data(), text.size()) : -1;
  if (written > 0) {
    bytes_ += static_cast<Bytes>(written);
    is_within_line_ = text[static_cast<std::size_t>(written) - 1] != '\n';
  }
  return written == static_cast<ssize_t>(text.size());
}

}  // namespace batchflow::service
