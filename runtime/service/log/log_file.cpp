#include "runtime/service/log/log_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/protocol/regular_file.h"

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
    throw ConfigError(fmt::format("{}: cannot be written: {}; choose another place (--state)",
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

}  // namespace batchflow::service
