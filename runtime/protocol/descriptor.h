// A file descriptor that is closed when its owner is destroyed, and how a regular file is opened.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace batchflow::protocol {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  void reset() { Descriptor gone(std::move(*this)); }

 private:
  int number_ = -1;
};

// Opens a file that must be a regular one. Anything else of that name is an error, and is not
// waited for. None, with the reason in `problem`, where it fails; errno is ENOENT where there is no
// file.
inline Descriptor open_regular(const std::string& path, int flags, std::string& problem) {
  // Without O_NONBLOCK, opening a FIFO would wait for its other end. A regular file ignores it.
  Descriptor file(::open(path.c_str(), flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600));
  struct stat status {};
  problem.clear();
  if (!file || fstat(file.get(), &status) != 0) {
    const int error = errno;
    problem = error == ENXIO ? "it is no regular file" : std::generic_category().message(error);
    errno = error;
    return {};
  }
  if (S_ISREG(status.st_mode)) return file;
  problem = "it is no regular file";
  errno = EINVAL;
  return {};
}

}  // namespace batchflow::protocol
