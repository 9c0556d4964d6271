#include "runtime/sources/dataset_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/failpoint/failpoint.h"

namespace batchflow::sources {
namespace {

// In a tar the headers of large members are far apart, those of small ones close together. This is
// enough for a few small members.
constexpr std::size_t kReadAtLeast = 16 << 10;
// A request to a store takes as long as many bytes: more are read where the next ones will be
// wanted, which is so where the last ones were near.
constexpr std::size_t kReadOfObject = 256 << 10, kReadOfObjectAhead = 8 << 20;
constexpr Bytes kNear = 1 << 20;

std::int64_t modified_ns_of(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

// Opens folder by folder and follows no link, for kernels and sandboxes without openat2.
int open_by_folders(int root, std::string_view path, int flags) {
  protocol::Descriptor folder;
  int at = root;
  for (;;) {
    const std::size_t slash = path.find('/');
    const std::string name(path.substr(0, slash));
    if (name.empty() || name == "..") {
      errno = EXDEV;
      return -1;
    }
    if (slash == std::string_view::npos)
      return openat(at, name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC);
    folder = protocol::Descriptor(
        openat(at, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder) return -1;
    at = folder.get();
    path.remove_prefix(slash + 1);
  }
}

// Opens a file of the folder itself. O_NONBLOCK: a pipe must not wait for its other end.
int open_below(const protocol::Descriptor& folder, const std::string& name) {
  return openat(folder.get(), name.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
}

// Throws DatasetError where the root of a dataset is neither a file nor a folder. That is said
// before it is opened: opening a device may do something, and a socket cannot be opened.
void refuse_special(const std::filesystem::path& root, mode_t mode) {
  if (S_ISREG(mode) || S_ISDIR(mode)) return;
  const char* const kind = S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
  throw DatasetError(fmt::format(
      "{}: it is {}, and no regular file or folder; write the folder or file that holds "
      "the data",
      root.string(), kind));
}

}  // namespace

int open_beneath(int root, const char* path, int flags, bool follows_links) {
  open_how how = {};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | (follows_links ? 0 : RESOLVE_NO_SYMLINKS);
  for (int tries = 0; tries < 100; ++tries) {
    const long fd = syscall(SYS_openat2, root, path, &how, sizeof how);
    if (fd >= 0) return static_cast<int>(fd);
    if (errno == ENOSYS || errno == EPERM) return open_by_folders(root, path, flags);
    // EAGAIN: something was renamed meanwhile, so that the kernel could not tell.
    if (errno != EINTR && errno != EAGAIN) return -1;
  }
  return -1;
}

std::filesystem::path root_folder(const std::filesystem::path& root, std::string* only) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(root, error);
  if (error)
    throw DatasetError(fmt::format("{}: {}; write the folder or file that holds the data",
                                   root.string(), error.message()));
  const bool is_folder = std::filesystem::is_directory(real, error);
  if (only != nullptr) *only = is_folder ? "" : real.filename().string();
  return is_folder ? real : real.parent_path();
}

protocol::Descriptor open_root(const std::filesystem::path& root, std::string& only) {
  protocol::Descriptor folder(
      open(root_folder(root, &only).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder)
    throw DatasetError(
        fmt::format("{}: {}; let this user read it", root.string(), std::strerror(errno)));
  return folder;
}

std::string path_of(int descriptor) {
  std::error_code error;
  return std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", descriptor), error);
}

bool is_same_file(int one, int other) {
  struct stat a = {}, b = {};
  return fstat(one, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

std::shared_ptr<const DataRoot> open_data(const std::filesystem::path& root) {
  auto opened = std::make_shared<DataRoot>();
  if (objects::is_url(root.string())) {
    try {
      opened->store = objects::open_store(root.string());
      opened->only = opened->store->only();
    } catch (const objects::StoreError& error) {
      throw DatasetError(error.what());
    }
    return opened;
  }
  opened->folder = open_root(root, opened->only);
  if (!opened->only.empty()) {
    struct stat status = {};
    if (fstatat(opened->folder.get(), opened->only.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        !S_ISLNK(status.st_mode))
      refuse_special(root, status.st_mode);
    opened->file = protocol::Descriptor(open_below(opened->folder, opened->only));
    if (!opened->file)
      throw DatasetError(
          fmt::format("{}: {}; let this user read it", root.string(), std::strerror(errno)));
  }
  return opened;
}

std::shared_ptr<const DataRoot> open_shown(const std::filesystem::path& root, int shown) {
  auto opened = std::make_shared<DataRoot>();
  const protocol::Descriptor there(open(root.c_str(), O_PATH | O_CLOEXEC));
  struct stat status = {};
  if (!there || !is_same_file(there.get(), shown) || fstat(shown, &status) != 0) return nullptr;
  refuse_special(root, status.st_mode);
  // The shown descriptor is opened again: the process that shows it may change its flags.
  const bool is_folder = S_ISDIR(status.st_mode);
  const std::filesystem::path above = root.parent_path();
  opened->folder =
      protocol::Descriptor(is_folder ? openat(shown, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                                     : open(above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened->folder && !is_folder) {
    opened->only = root.filename();
    opened->file = protocol::Descriptor(open_below(opened->folder, opened->only));
    if (opened->file && !is_same_file(opened->file.get(), shown)) return nullptr;
  }
  if (!opened->folder || (!is_folder && !opened->file))
    throw DatasetError(
        fmt::format("{}: {}; let the service's user read it", root.string(), std::strerror(errno)));
  return opened;
}

// O_NONBLOCK: opening a pipe must not wait for its writer.
DatasetFile::DatasetFile(int root, std::string_view path) : path_(path) {
  take(open_beneath(root, path_.c_str(), O_RDONLY | O_NONBLOCK), false);
}

DatasetFile::DatasetFile(const DataRoot& root, std::string_view path, bool is_public)
    : path_(path) {
  if (root.store) {
    try {
      const objects::ObjectInfo info = root.store->look(path);
      size_ = info.bytes;
      mark_ = info.mark;
    } catch (const objects::ObjectChanged& error) {
      throw DatasetChanged(error.what());
    } catch (const objects::StoreError& error) {
      throw DatasetError(error.what());
    }
    store_ = root.store;
  } else if (root.only.empty()) {
    take(open_beneath(root.folder.get(), path_.c_str(), O_RDONLY | O_NONBLOCK, !is_public),
         is_public);
  } else {
    take(fcntl(root.file.get(), F_DUPFD_CLOEXEC, 3), false);
  }
}

DatasetFile::DatasetFile(const DataRoot& root, std::string_view path,
                         const objects::ObjectInfo& listed)
    : path_(path), store_(root.store), mark_(listed.mark), size_(listed.bytes) {}

void DatasetFile::take(int opened, bool is_public) {
  fd_ = protocol::Descriptor(opened);
  if (BF_FAILPOINT("sources.file.open")) {
    fd_.reset();
    errno = EMFILE;
  }
  if (!fd_ && (errno == ENOENT || (is_public && errno == ELOOP)))
    throw DatasetChanged(fmt::format("{}: it was there a moment ago", path_));
  struct stat status = {};
  if (!fd_ || fstat(fd_.get(), &status) != 0)
    throw DatasetError(fmt::format("{}: {}; let this user read it", path_, std::strerror(errno)));
  if (!S_ISREG(status.st_mode))
    throw DatasetChanged(fmt::format("{}: it was a file a moment ago", path_));
  if (is_public && (status.st_mode & S_IROTH) == 0)
    throw DatasetChanged(fmt::format("{}: all users could read it a moment ago", path_));
  size_ = static_cast<Bytes>(status.st_size);
  modified_ns_ = modified_ns_of(status);
}

std::span<const std::byte> DatasetFile::view(std::uint64_t offset, std::size_t bytes) {
  if (offset >= size_) return {};
  const Bytes left = size_ - offset;
  bytes = left < bytes ? static_cast<std::size_t>(left) : bytes;
  if (offset < buffer_at_ || offset + bytes > buffer_at_ + buffered_) {
    const Bytes wanted = std::min<Bytes>(std::max<Bytes>(bytes, read_at_least(offset)), left);
    if (buffer_.size() < wanted) buffer_.resize(wanted);
    buffer_at_ = offset;
    buffered_ = 0;
    read(offset, std::span(buffer_).first(wanted));
    buffered_ = wanted;
  }
  return std::span<const std::byte>(buffer_).subspan(offset - buffer_at_, bytes);
}

void DatasetFile::read(std::uint64_t offset, std::span<std::byte> to) {
  if (when_reading_) when_reading_();
  if (store_) return read_object(offset, to);
  while (!to.empty()) {
    const Bytes ask = BF_FAILPOINT_SHORT("sources.read.short", to.size());
    ssize_t got = pread(fd_.get(), to.data(), ask, static_cast<off_t>(offset));
    if (BF_FAILPOINT("sources.read.error")) {
      got = -1;
      errno = EIO;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw DatasetError(fmt::format("{}: at byte {}: {}; look at the drive it is on", path_,
                                     offset, std::strerror(errno)));
    if (got == 0) throw DatasetChanged(fmt::format("{}: it became shorter", path_));
    to = to.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

void DatasetFile::will_be_read(std::uint64_t offset, Bytes bytes) const {
  if (fd_)
    posix_fadvise(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes),
                  POSIX_FADV_WILLNEED);
}

Bytes DatasetFile::read_at_least(std::uint64_t offset) {
  if (!store_) return kReadAtLeast;
  const std::uint64_t end = buffer_at_ + buffered_;
  const bool goes_on = buffered_ > 0 && offset >= buffer_at_ && offset < end + kNear;
  return goes_on ? kReadOfObjectAhead : kReadOfObject;
}

void DatasetFile::read_object(std::uint64_t offset, std::span<std::byte> to) {
  static const std::atomic<bool> kNeverStopped{false};
  const objects::RangeAnswer answer = store_->read(path_, mark_, offset, {&to, 1}, kNeverStopped);
  if (answer.error == ESTALE || answer.error == ENOENT)
    throw DatasetChanged(fmt::format("{}: {}", path_, answer.problem));
  if (answer.error != 0)
    throw DatasetError(
        fmt::format("{}: {}: at byte {}: {}", store_->url(), path_, offset, answer.problem));
}

void DatasetFile::check_unchanged() const {
  if (store_) return;  // each range that was read was of the same object
  struct stat status = {};
  if (fstat(fd_.get(), &status) != 0 || static_cast<Bytes>(status.st_size) != size_ ||
      modified_ns_of(status) != modified_ns_)
    throw DatasetChanged(fmt::format("{}: it was written to", path_));
}

}  // namespace batchflow::sources
