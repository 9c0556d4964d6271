#include "runtime/sources/kept_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <set>

#include "runtime/sources/content_hash.h"
#include "runtime/sources/leftovers.h"

namespace batchflow::sources {
namespace {

namespace fs = std::filesystem;

// Folders of the same dataset as it was before. Jobs may still read them for a while.
constexpr auto kOldKept = std::chrono::hours(24);

Digest name_of(const SourceOptions& options, const DataRoot& root, const KeptFolder& folder) {
  ContentHash hash;
  hash.add(root.store ? root.store->url() : path_of(root.folder.get()));
  hash.add(root.only);
  hash.add(options.kept_for);
  if (folder.what != 0) hash.add(folder.what);
  return hash.digest();
}

// Two datasets of a service may be of the same files: one of them makes the folder.
class Making {
 public:
  explicit Making(const SourceOptions& options, std::string folder) : folder_(std::move(folder)) {
    const StopCheck check(options.stop);
    std::unique_lock lock(mutex());
    while (!under_way().insert(folder_).second) {
      ended().wait_for(lock, std::chrono::milliseconds(50));
      check.now();
    }
  }
  ~Making() {
    {
      const std::lock_guard lock(mutex());
      under_way().erase(folder_);
    }
    ended().notify_all();
  }
  Making(const Making&) = delete;

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static std::condition_variable& ended() {
    static std::condition_variable one;
    return one;
  }
  static std::set<std::string>& under_way() {
    static std::set<std::string> all;
    return all;
  }

  std::string folder_;
};

void remove_old(const fs::path& folder, const fs::path& present) {
  std::error_code error;
  for (const fs::directory_entry& one : fs::directory_iterator(folder, error)) {
    const auto age = fs::file_time_type::clock::now() - one.last_write_time(error);
    if (one.path() != present && !error && age > kOldKept) fs::remove_all(one.path(), error);
  }
}

}  // namespace

void fail_to_write(std::string_view path, std::string_view what) {
  throw DatasetError(
      fmt::format("{}: {}: {}; free some room, or give the service another state "
                  "folder (--state)",
                  path, what, std::strerror(errno)));
}

void write_all(int to, std::span<const std::byte> bytes, std::string_view path) {
  while (!bytes.empty()) {
    const ssize_t written = write(to, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_to_write(path, "it cannot be written");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

std::shared_ptr<const DataRoot> kept_folder(const SourceOptions& options,
                                            const std::shared_ptr<const DataRoot>& root,
                                            const KeptFolder& wanted,
                                            const std::function<void(const fs::path&)>& make) {
  const std::string as_it_is = fmt::format("{:016x}", wanted.as_it_is);
  const fs::path all =
      (options.unpack_folder.empty() ? options.index_folder : options.unpack_folder) / wanted.kind /
      fmt::format("{:016x}", name_of(options, *root, wanted));
  const fs::path folder = all / as_it_is;
  std::error_code error;
  const Making making(options, folder.string());
  if (!fs::exists(folder, error)) {
    fs::create_directories(all, error);
    remove_leftovers(all, as_it_is + ".tmp-");
    const fs::path temporary = fmt::format("{}.tmp-{}", folder.string(), getpid());
    fs::remove_all(temporary, error);
    if (!fs::create_directory(temporary, error))
      fail_to_write(temporary.string(), "it cannot be made");
    fs::permissions(temporary, fs::perms::owner_all, error);
    try {
      make(temporary);
    } catch (...) {
      fs::remove_all(temporary, error);
      throw;
    }
    if (rename(temporary.c_str(), folder.c_str()) != 0 && !fs::exists(folder, error))
      fail_to_write(folder.string(), "it cannot be named");
  }
  remove_old(all, folder);
  auto opened = std::make_shared<DataRoot>();
  opened->folder = protocol::Descriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened->folder) fail_to_write(folder.string(), "it cannot be opened");
  opened->packed = root;
  return opened;
}

}  // namespace batchflow::sources
