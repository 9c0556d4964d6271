#include "programs/output/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/config_value.h"

namespace batchflow::output {

namespace {

using OnSignal = std::function<void()>;

std::string shown(const std::string& path) {
  return is_standard_output(path) ? "standard output" : path;
}

[[noreturn]] void refuse(const std::string& path, int error) {
  throw ConfigError(shown(path) + ": cannot be written: " + std::strerror(error) +
                    "; name a file in an existing directory you may write to, or `-`");
}

[[noreturn]] void fail(const std::string& path, int error) {
  throw OutputError(
      shown(path) + ": cannot be written: " + std::strerror(error) + "; write elsewhere", error);
}

// A temporary name beside the destination, for a file that is removed unless it was renamed to its
// place.
class Temporary {
 public:
  explicit Temporary(const std::string& destination)
      : name_(std::filesystem::path(destination).parent_path() / ".batchflow-XXXXXX"),
        descriptor_(::mkstemp(name_.data())) {
    if (descriptor_ < 0) refuse(destination, errno);
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    ::close(descriptor_);
    if (!renamed_) ::unlink(name_.c_str());
  }

  int descriptor() const { return descriptor_; }
  bool rename_to(const std::string& destination) {
    renamed_ = ::rename(name_.c_str(), destination.c_str()) == 0;
    return renamed_;
  }

 private:
  std::string name_;
  int descriptor_;
  bool renamed_ = false;
};

// A system call that a signal ends is made again, unless `on_signal` throws.
template <class Call>
auto uninterrupted(const OnSignal& on_signal, Call call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
    if (on_signal) on_signal();
  }
}

// `path` is the name of the descriptor in errors.
void write_all(int descriptor, const Content& content, const std::string& path,
               const OnSignal& on_signal) {
  content([&](std::string_view piece) {
    while (!piece.empty()) {
      const ssize_t written =
          uninterrupted(on_signal, [&] { return ::write(descriptor, piece.data(), piece.size()); });
      if (written < 0) fail(path, errno);
      piece.remove_prefix(static_cast<std::size_t>(written));
    }
  });
}

// The target of a symbolic link, also when the target does not exist yet.
std::string follow_links(const std::string& path) {
  std::error_code error;
  std::filesystem::path target = path;
  for (int hops = 0; hops < 40 && std::filesystem::is_symlink(target, error); ++hops) {
    target = target.parent_path() / std::filesystem::read_symlink(target, error);
    if (error) refuse(path, error.value());
  }
  return target.string();
}

// mkstemp makes a file for its owner alone. A result gets the mode of any new file, or keeps the
// mode of the file that it replaces.
mode_t mode_for(const struct stat* existing) {
  if (existing) return existing->st_mode & 07777;
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

// Closed at the end, whatever on_signal throws; some devices refuse only then.
class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }

  int get() const { return descriptor_; }
  bool close() {
    const bool good = descriptor_ < 0 || ::close(descriptor_) == 0;
    descriptor_ = -1;
    return good;
  }

 private:
  int descriptor_;
};

void write_special(const std::string& path, const Content& content, const OnSignal& on_signal) {
  Descriptor file(
      uninterrupted(on_signal, [&] { return ::open(path.c_str(), O_WRONLY | O_CLOEXEC); }));
  if (file.get() < 0) refuse(path, errno);
  write_all(file.get(), content, path, on_signal);
  if (!file.close()) fail(path, errno);
}

// The status of the file at `path`: false when there is none yet. Throws when there never can be.
bool find(const std::string& path, struct stat& status) {
  if (path.empty()) refuse(path, ENOENT);
  if (::stat(path.c_str(), &status) != 0) {
    if (errno != ENOENT) refuse(path, errno);
    return false;
  }
  if (S_ISDIR(status.st_mode)) refuse(path, EISDIR);
  if (::access(path.c_str(), W_OK) != 0) refuse(path, errno);
  return true;
}

}  // namespace

bool is_standard_output(const std::string& path) {
  return path == "-" || path == "/dev/stdout";
}

std::string text_of(const Content& content) {
  std::string text;
  content([&](std::string_view piece) { text += piece; });
  return text;
}

void write_file_atomically(const std::string& path, std::string_view content,
                           const std::function<void()>& on_signal) {
  write_file_atomically(
      path, [&](const Sink& sink) { sink(content); }, on_signal);
}

void write_file_atomically(const std::string& path, const Content& content,
                           const std::function<void()>& on_signal) {
  if (is_standard_output(path)) return write_all(STDOUT_FILENO, content, path, on_signal);
  struct stat status {};
  const bool exists = find(path, status);
  if (exists && !S_ISREG(status.st_mode)) return write_special(path, content, on_signal);

  const std::string destination = follow_links(path);
  Temporary temporary(destination);
  write_all(temporary.descriptor(), content, path, on_signal);
  if (::fchmod(temporary.descriptor(), mode_for(exists ? &status : nullptr)) != 0 ||
      ::fsync(temporary.descriptor()) != 0 || !temporary.rename_to(destination)) {
    fail(path, errno);
  }
}

void require_writable(const std::string& path) {
  if (is_standard_output(path)) return;
  struct stat status {};
  if (find(path, status) && !S_ISREG(status.st_mode)) return;
  const std::filesystem::path destination = follow_links(path);
  const auto folder = destination.parent_path();
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) refuse(path, errno);
  if (destination.filename().empty()) refuse(path, EISDIR);  // `folder/`, which does not exist
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  if (std::filesystem::is_other(a, error)) return false;
  if (std::filesystem::equivalent(a, b, error)) return true;
  const auto whole = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(follow_links(path)), error);
  };
  return whole(a) == whole(b);
}

}  // namespace batchflow::output
