#include "runtime/sources/file_walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/failpoint/failpoint.h"
#include "runtime/sources/dataset_file.h"

namespace batchflow {
namespace {

constexpr std::size_t kPathMost = 4095;

struct Entry {
  std::string name;  // of a folder with a slash, which puts its files where their paths belong
  mode_t mode = 0;
  Bytes bytes = 0;
  std::int64_t modified_ns = 0;
};

std::string shown(std::string_view path) {
  return path.empty() ? "the data set's folder" : std::string(path);
}

Entry entry_of(std::string name, const struct stat& status) {
  const std::int64_t modified_ns =
      std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  if (S_ISDIR(status.st_mode)) name += '/';
  return {std::move(name), status.st_mode, static_cast<Bytes>(status.st_size), modified_ns};
}

std::vector<Entry> entries_of(int folder, std::string_view path) {
  // The stream closes what it is made from.
  const int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(fd < 0 ? nullptr : fdopendir(fd), closedir);
  if (!stream)
    throw DatasetError(
        fmt::format("{}: {}; let this user read it", shown(path), std::strerror(errno)));
  std::vector<Entry> entries;
  for (;;) {
    errno = 0;
    const dirent* entry = readdir(stream.get());
    if (BF_FAILPOINT("sources.folder.list")) {
      entry = nullptr;
      errno = EIO;
    }
    if (entry == nullptr && errno != 0)
      throw DatasetError(
          fmt::format("{}: {}; look at the drive it is on", shown(path), std::strerror(errno)));
    if (entry == nullptr) break;
    if (entry->d_name[0] == '.') continue;
    struct stat status = {};
    if (fstatat(folder, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
      throw DatasetChanged(fmt::format("{}{}: it went away", path, entry->d_name));
    entries.push_back(entry_of(entry->d_name, status));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

}  // namespace

void FileWalk::meet_link(const std::string& path) {
  const Descriptor target(open_beneath(root_, path.c_str(), O_PATH));
  struct stat status = {};
  if (!target || fstat(target.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    ++links;
    return;
  }
  const Entry entry = entry_of({}, status);
  file({path, entry.bytes, entry.modified_ns});
}

void FileWalk::look_whether_closed(const std::string& path, bool is_open) {
  if (!is_open && closed.empty()) closed = path;
}

void FileWalk::enter(int at, std::string& path, int depth) {
  const std::size_t prefix = path.size();
  for (const Entry& entry : entries_of(at, path)) {
    path.resize(prefix);
    path += entry.name;
    if (path.size() > kPathMost)
      throw DatasetError(
          fmt::format("{}: longer than {} bytes; move the data set's root down", path, kPathMost));
    if (S_ISREG(entry.mode)) {
      look_whether_closed(path, (entry.mode & S_IROTH) != 0);
      file({path, entry.bytes, entry.modified_ns});
    } else if (S_ISLNK(entry.mode)) {
      look_whether_closed(path, false);
      meet_link(path);
    } else if (S_ISDIR(entry.mode)) {
      look_whether_closed(path, (entry.mode & (S_IROTH | S_IXOTH)) == (S_IROTH | S_IXOTH));
      if (depth == kDepthMost)
        throw DatasetError(
            fmt::format("{}: more than {} folders deep; move the data set's root "
                        "down",
                        path, kDepthMost));
      const Descriptor below(
          openat(at, entry.name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!below) throw DatasetChanged(fmt::format("{}: it went away", path));
      folder(std::string_view(path).substr(0, path.size() - 1));
      enter(below.get(), path, depth + 1);
    } else {
      ++specials;
    }
  }
  path.resize(prefix);
}

void FileWalk::run(int root, const std::string& only) {
  root_ = root;
  links = specials = 0;
  closed.clear();
  std::string path;
  if (only.empty()) return enter(root, path, 0);
  const DatasetFile there(root, only);
  file({only, there.size(), there.modified_ns()});
}

}  // namespace batchflow
