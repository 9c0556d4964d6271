// Opens a file that must be a regular one. Anything else of that name is an error, and is not
// waited for.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "runtime/protocol/descriptor.h"

namespace batchflow::protocol {

// None, with the reason in `problem`, where it fails; errno is ENOENT where there is no file.
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
