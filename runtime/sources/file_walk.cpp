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

namespace batchflow::sources {
namespace {

constexpr std::size_t kPathMost = 4095;

std::string shown(std::string_view path) {
  return path.empty() ? "the dataset's folder" : std::string(path);
}

bool may_all_enter(mode_t mode) {
  return (mode & (S_IROTH | S_IXOTH)) == (S_IROTH | S_IXOTH);
}

}  // namespace

struct FileWalk::Entry {
  std::string name;  // a folder's ends with a slash, so that its files are sorted by their paths
  mode_t mode = 0;
  Bytes bytes = 0;
  std::int64_t modified_ns = 0;

  Entry(std::string_view entry, const struct stat& status)
      : name(entry),
        mode(status.st_mode),
        bytes(static_cast<Bytes>(status.st_size)),
        modified_ns(std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec) {
    if (S_ISDIR(mode)) name += '/';
  }
  std::int64_t held() const { return static_cast<std::int64_t>(sizeof *this + name.size()); }
};

std::vector<FileWalk::Entry> FileWalk::entries_of(int at, std::string_view path) const {
  // closedir() also closes the descriptor.
  const int fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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
    if (fstatat(at, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
      throw DatasetChanged(fmt::format("{}{}: it went away", path, entry->d_name));
    entries.emplace_back(entry->d_name, status);
    if (hold) hold(entries.back().held());
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

void FileWalk::take_link(const std::string& path) {
  const protocol::Descriptor target(open_beneath(root_, path.c_str(), O_PATH));
  struct stat status = {};
  if (!target || fstat(target.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    ++links;
    return;
  }
  const Entry entry({}, status);
  file({path, entry.bytes, entry.modified_ns});
}

void FileWalk::note_closed(const std::string& path, bool is_open) {
  if (is_open || !closed.empty()) return;
  closed = path;
  if (refuses_closed) throw DatasetError(fmt::format("{}: not all users may read it", path));
}

void FileWalk::enter(int at, std::string& path, int depth) {
  const std::size_t prefix = path.size();
  const std::vector<Entry> entries = entries_of(at, path);
  for (const Entry& entry : entries) {
    path.resize(prefix);
    path += entry.name;
    if (path.size() > kPathMost)
      throw DatasetError(
          fmt::format("{}: longer than {} bytes; move the dataset's root down", path, kPathMost));
    if (S_ISREG(entry.mode)) {
      note_closed(path, (entry.mode & S_IROTH) != 0);
      file({path, entry.bytes, entry.modified_ns});
    } else if (S_ISLNK(entry.mode)) {
      note_closed(path, false);
      take_link(path);
    } else if (S_ISDIR(entry.mode)) {
      if (depth == kDepthMost)
        throw DatasetError(
            fmt::format("{}: more than {} folders deep; move the dataset's root "
                        "down",
                        path, kDepthMost));
      const protocol::Descriptor below(
          openat(at, entry.name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      struct stat status = {};
      if (!below || fstat(below.get(), &status) != 0)
        throw DatasetChanged(fmt::format("{}: it went away", path));
      // This is asked of the open folder, since another may have had the name a moment ago.
      note_closed(path, may_all_enter(status.st_mode));
      folder(std::string_view(path).substr(0, path.size() - 1));
      enter(below.get(), path, depth + 1);
    } else {
      ++specials;
    }
  }
  path.resize(prefix);
  for (const Entry& entry : entries)
    if (hold) hold(-entry.held());
}

// A store has no folders: a path's beginning is one.
void FileWalk::list(const DataRoot& root) {
  std::string top;
  try {
    root.store->list([&](std::string_view path, const objects::ObjectInfo& object) {
      if (path.front() == '.' || path.find("/.") != std::string_view::npos) return;
      if (path.size() > kPathMost)
        throw DatasetError(fmt::format("{}: longer than {} bytes", path, kPathMost));
      const std::size_t slash = path.find('/');
      if (slash != std::string_view::npos && folder && path.substr(0, slash) != top) {
        top = path.substr(0, slash);
        folder(top);
      }
      file({path, object.bytes, static_cast<std::int64_t>(object.mark)});
    });
  } catch (const objects::ObjectChanged& error) {
    throw DatasetChanged(error.what());
  } catch (const objects::StoreError& error) {
    throw DatasetError(error.what());
  }
}

void FileWalk::run(const DataRoot& root) {
  root_ = root.folder.get();
  links = specials = 0;
  closed.clear();
  if (root.store) return list(root);
  std::string path;
  if (root.only.empty()) return enter(root_, path, 0);
  const DatasetFile there(root, root.only, false);
  file({root.only, there.size(), there.modified_ns()});
}

}  // namespace batchflow::sources
