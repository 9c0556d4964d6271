#include "runtime/storage/open_beneath.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "runtime/failpoint/failpoint.h"

namespace batchflow::storage {
namespace {

constexpr int kFlags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_LARGEFILE;

int flags(bool direct) {
  return kFlags | (direct ? O_DIRECT : 0);
}

int openat2(int root, const char* path, open_how how) {
  how.flags |= O_CLOEXEC;  // io_uring refuses it for files in its table, so it is added here
  return static_cast<int>(::syscall(SYS_openat2, root, path, &how, sizeof how));
}

// Kernels before 5.6 and some sandboxes have no openat2; sandboxes answer EPERM.
bool has_openat2() {
  static const bool has = [] {
    const int fd = openat2(AT_FDCWD, ".", {.flags = O_PATH, .mode = 0, .resolve = 0});
    if (fd < 0) return errno != ENOSYS && errno != EPERM;
    ::close(fd);
    return true;
  }();
  return has && !BF_FAILPOINT("storage.openat2.missing");
}

// Opens the path folder by folder, and follows no link.
int open_by_folders(int root, std::string_view path, bool direct) {
  if (path.starts_with('/')) return errno = EXDEV, -1;
  int folder = root;
  for (;;) {
    const std::size_t end = path.find('/');
    const bool last = end == path.npos;
    char name[256];
    const std::string_view part = path.substr(0, end);
    int next = -1;
    if (part == "..") {
      errno = EXDEV;
    } else if (part.size() >= sizeof name) {
      errno = ENAMETOOLONG;
    } else {
      name[part.copy(name, sizeof name - 1)] = 0;
      // An empty name, from a double slash, means the folder itself.
      next = ::openat(folder, part.empty() && !last ? "." : name,
                      O_NOFOLLOW | O_CLOEXEC | (last ? flags(direct) : O_PATH | O_DIRECTORY));
    }
    const int error = errno;
    if (folder != root) ::close(folder);
    if (next < 0 || last) return errno = error, next;
    folder = next;
    path.remove_prefix(end + 1);
  }
}

}  // namespace

open_how how_beneath(bool direct, bool follows_links) {
  const std::uint64_t beneath = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  return {.flags = static_cast<unsigned>(flags(direct)),
          .mode = 0,
          .resolve = follows_links ? beneath : beneath | RESOLVE_NO_SYMLINKS};
}

Opened open_beneath(int root, const char* path, bool direct, bool follows_links) {
  for (int tries = 0; tries < 16; ++tries) {
    const int fd = has_openat2() ? openat2(root, path, how_beneath(direct, follows_links))
                                 : open_by_folders(root, path, direct);
    if (fd >= 0) return {.fd = fd, .error = 0};
    // EAGAIN: a folder was renamed while `..` was followed.
    if (errno != EAGAIN && errno != EINTR) break;
  }
  return {.fd = -1, .error = errno};
}

int admit(int fd, bool direct, const ReadGuard* guard) {
  struct stat about;
  if (::fstat(fd, &about) != 0) return errno;
  if (S_ISDIR(about.st_mode)) return EISDIR;
  if (!S_ISREG(about.st_mode)) return ENXIO;
  if (guard && guard->is_public && (about.st_mode & S_IROTH) == 0) return EACCES;
  if (guard && guard->number != 0 &&
      (about.st_dev != guard->device || about.st_ino != guard->number))
    return ESTALE;
  return ::fcntl(fd, F_SETFL, flags(direct) & ~O_NONBLOCK) == 0 ? 0 : errno;
}

}  // namespace batchflow::storage
