#include "runtime/service/log/rotating_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "core/base/config_value.h"
#include "fmt/format.h"

namespace batchflow::service {

RotatingFile::RotatingFile(std::filesystem::path path, Bytes bytes_most)
    : path_(std::move(path)), bytes_most_(bytes_most) {
  if (!open())
    throw ConfigError(fmt::format("log_file: {}: cannot be written: {}; choose another file",
                                  path_.string(), std::generic_category().message(errno)));
}

bool RotatingFile::open() {
  // O_NONBLOCK: opening a pipe without a reader must not wait.
  file_ = protocol::Descriptor(
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0640));
  struct stat status = {};
  if (!file_ || fstat(file_.get(), &status) != 0) return false;
  bytes_ = static_cast<Bytes>(status.st_size);
  return true;
}

bool RotatingFile::append(std::string_view line) {
  const Bytes bytes = line.size() + 1;
  if (bytes_ > 0 && bytes_ + bytes > bytes_most_ / 2) {
    std::error_code error;
    std::filesystem::rename(path_, path_.string() + ".1", error);
    // If the full file cannot be renamed, no more is written: the bound holds.
    if (error || !open()) return false;
  }
  const std::string text = std::string(line.substr(0, bytes_most_ / 2)) + '\n';
  const ssize_t written = file_ ? write(file_.get(), text.data(), text.size()) : -1;
  if (written > 0) bytes_ += static_cast<Bytes>(written);
  return written == static_cast<ssize_t>(text.size());
}

}  // namespace batchflow::service
