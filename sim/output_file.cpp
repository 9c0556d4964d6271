#include "sim/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/config_error.h"

namespace batchflow::sim {

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  if (to_standard_output()) {
    descriptor_ = STDOUT_FILENO;
    return;
  }
  struct stat status {};
  const bool exists = stat(path_.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) {
    errno = EISDIR;
    fail();
  }
  if (exists && !S_ISREG(status.st_mode)) {
    descriptor_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail();
    return;
  }
  temporary_ = path_ + ".XXXXXX";
  descriptor_ = mkstemp(temporary_.data());
  if (descriptor_ < 0) {
    temporary_.clear();
    fail();
  }
  const mode_t mask = umask(0);
  umask(mask);
  fchmod(descriptor_, exists ? status.st_mode & 07777 : 0666 & ~mask);
}

OutputFile::~OutputFile() {
  if (!to_standard_output() && descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void OutputFile::fail() const {
  throw ConfigError(fmt::format("{}: cannot be written: {}; choose another file",
                                to_standard_output() ? "standard output" : path_,
                                std::strerror(errno)));
}

void OutputFile::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail();
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (temporary_.empty()) return;
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail();
  temporary_.clear();
}

}  // namespace batchflow::sim
