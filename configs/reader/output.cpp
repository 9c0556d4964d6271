#include "configs/reader/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "core/config_error.h"

namespace batchflow {

namespace {

[[noreturn]] void refuse(const std::string& path, int error) {
  throw ConfigError(path + ": cannot write: " + std::strerror(error) +
                    "; name a file in an existing directory you may write to, or `-`");
}

// A file descriptor that closes itself, and a name that is removed unless it was put in place.
class Temporary {
 public:
  explicit Temporary(const std::string& destination)
      : name_(destination + ".tmp-XXXXXX"), descriptor_(::mkstemp(name_.data())) {
    if (descriptor_ < 0) refuse(destination, errno);
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    ::close(descriptor_);
    if (!placed_) ::unlink(name_.c_str());
  }

  int descriptor() const { return descriptor_; }
  bool place_as(const std::string& destination) {
    placed_ = ::rename(name_.c_str(), destination.c_str()) == 0;
    return placed_;
  }

 private:
  std::string name_;
  int descriptor_;
  bool placed_ = false;
};

bool write_all(int descriptor, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(descriptor, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// What a symbolic link points to, also when that does not exist yet.
std::string follow_links(const std::string& path) {
  std::error_code error;
  std::filesystem::path target = path;
  for (int hops = 0; hops < 40 && std::filesystem::is_symlink(target, error); ++hops) {
    target = target.parent_path() / std::filesystem::read_symlink(target, error);
    if (error) refuse(path, error.value());
  }
  return target.string();
}

// mkstemp makes a file for its owner alone; results get the mode any new file would get, or keep
// the one they had.
mode_t mode_for(const struct stat* existing) {
  if (existing) return existing->st_mode & 07777;
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

void write_directly(const std::string& path, int descriptor, std::string_view content) {
  if (!write_all(descriptor, content)) refuse(path, errno);
}

void write_special(const std::string& path, std::string_view content) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) refuse(path, errno);
  const bool whole = write_all(descriptor, content);
  const int error = errno;
  if (::close(descriptor) != 0 || !whole) refuse(path, whole ? errno : error);
}

}  // namespace

void write_file_atomically(const std::string& path, std::string_view content) {
  if (path == "-") return write_directly("standard output", STDOUT_FILENO, content);
  const std::string destination = follow_links(path);
  struct stat status {};
  const bool exists = ::stat(destination.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) refuse(path, EISDIR);
  if (exists && !S_ISREG(status.st_mode)) return write_special(path, content);
  if (exists && ::access(destination.c_str(), W_OK) != 0) refuse(path, errno);

  Temporary temporary(destination);
  if (!write_all(temporary.descriptor(), content) ||
      ::fchmod(temporary.descriptor(), mode_for(exists ? &status : nullptr)) != 0 ||
      ::fsync(temporary.descriptor()) != 0 || !temporary.place_as(destination)) {
    refuse(path, errno);
  }
}

void require_writable(const std::string& path) {
  if (path == "-") return;
  const std::string destination = follow_links(path);
  struct stat status {};
  if (::stat(destination.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) refuse(path, EISDIR);
    if (::access(destination.c_str(), W_OK) != 0) refuse(path, errno);
    if (!S_ISREG(status.st_mode)) return;
  }
  const auto folder = std::filesystem::path(destination).parent_path();
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) refuse(path, errno);
}

}  // namespace batchflow
