#include "runtime/sources/unpack.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "runtime/sources/content_hash.h"
#include "runtime/sources/kept_folder.h"
#include "runtime/sources/unpack_process.h"
#include "runtime/sources/unzip.h"

namespace batchflow::sources {
namespace {

namespace fs = std::filesystem;
using By = NeedsUnpacking::By;

constexpr Bytes kAtOnce = 8 << 20;

std::string_view path_in(const IndexParts& parts, std::size_t file) {
  const auto& ends = parts.numbers[static_cast<std::size_t>(IndexSection::path_ends)];
  const std::uint64_t begin = file == 0 ? 0 : ends[file - 1];
  return std::string_view(parts.paths).substr(begin, ends[file] - 1 - begin);
}

class Unpacking {
 public:
  Unpacking(const SourceOptions& options, const DataRoot& root, const NeedsUnpacking& needs,
            const fs::path& folder)
      : options_(options), root_(root), needs_(needs), folder_(folder) {
    const auto& bytes = needs.parts.numbers[static_cast<std::size_t>(IndexSection::file_bytes)];
    for (const std::uint64_t one : bytes) total_ += one;
  }

  void run() {
    const auto& parts = needs_.parts;
    const std::size_t files =
        parts.numbers[static_cast<std::size_t>(IndexSection::path_ends)].size();
    if (needs_.by == By::here) {
      for (std::size_t file = 0; file < files; ++file) unzip(file);
      return;
    }
    const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
    // Each process takes a while to begin, so it gets several files where there are many.
    const std::size_t each = std::clamp<std::size_t>(files / cores, 1, UnpackProcess::kFilesMost);
    std::vector<std::unique_ptr<UnpackProcess>> running;
    for (std::size_t next = 0; next < files || !running.empty();) {
      while (next < files && running.size() < cores) {
        std::vector<UnpackProcess::File> some;
        for (; some.size() < each && next < files; ++next) some.push_back(opened(next));
        running.push_back(std::make_unique<UnpackProcess>());
        running.back()->begin(needs_.by == By::video             ? "video"
                              : needs_.by == By::pyarrow_parquet ? "parquet"
                                                                 : "arrow",
                              std::move(some), columns());
      }
      std::erase_if(running, [](const auto& one) { return one->has_ended(); });
      look_around();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

 private:
  // All, unless the user has said both that are served.
  std::vector<std::string> columns() const {
    if (options_.column.empty() || options_.label_column.empty()) return {};
    return {options_.column, options_.label_column};
  }

  void look_around() const {
    if (options_.stop && options_.stop())
      throw DatasetError(fmt::format("{}: stopped while it was being unpacked", options_.name));
    if (options_.progress) options_.progress(done_, total_, "bytes unpacked");
  }

  DatasetFile source(std::size_t file) const {
    const auto& parts = needs_.parts;
    const std::string_view path = path_in(parts, file);
    if (!root_.store) return {root_, path, false};
    return {root_, path,
            objects::ObjectInfo{
                parts.numbers[static_cast<std::size_t>(IndexSection::file_bytes)][file],
                parts.numbers[static_cast<std::size_t>(IndexSection::file_marks)][file]}};
  }

  protocol::Descriptor made(const fs::path& path) const {
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    protocol::Descriptor to(
        open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!to) fail_to_write(path.string(), "it cannot be written");
    return to;
  }

  UnpackProcess::File opened(std::size_t file) {
    const std::string path(path_in(needs_.parts, file));
    UnpackProcess::File one;
    one.path = path;
    one.to =
        made(folder_ / fmt::format("{}{}", path, needs_.by == By::video ? kVideoGroups : ".arrow"));
    if (!root_.store) {
      one.from = protocol::Descriptor(
          root_.only.empty() ? open_beneath(root_.folder.get(), path.c_str(), O_RDONLY | O_NONBLOCK)
                             : fcntl(root_.file.get(), F_DUPFD_CLOEXEC, 3));
      if (!one.from) throw DatasetChanged(fmt::format("{}: it was there a moment ago", path));
    } else {
      one.from = fetched(file);
    }
    done_ += needs_.parts.numbers[static_cast<std::size_t>(IndexSection::file_bytes)][file];
    return one;
  }

  // A copy of an object, in a file that has no name.
  protocol::Descriptor fetched(std::size_t file) const {
    const fs::path place = folder_ / ".object";
    protocol::Descriptor to = made(place);
    unlink(place.c_str());
    write_whole(file, to.get());
    return to;
  }

  // A shard that lies among compressed ones, and is not.
  void copy(std::size_t file) {
    const std::string path(path_in(needs_.parts, file));
    write_whole(file, made(folder_ / path).get());
    done_ += needs_.parts.numbers[static_cast<std::size_t>(IndexSection::file_bytes)][file];
  }

  void write_whole(std::size_t file, int to) const {
    const std::string path(path_in(needs_.parts, file));
    DatasetFile from = source(file);
    for (Bytes at = 0; at < from.size();) {
      look_around();
      const auto bytes =
          from.view(at, static_cast<std::size_t>(std::min<Bytes>(kAtOnce, from.size() - at)));
      write_all(to, bytes, path);
      at += bytes.size();
    }
  }

  void unzip(std::size_t file) {
    const std::string path(path_in(needs_.parts, file));
    if (!is_zipped_shard(path)) return copy(file);
    const protocol::Descriptor to = made(folder_ / path.substr(0, path.rfind('.')));
    DatasetFile from = source(file);
    from.when_reading([this] { look_around(); });
    const std::string problem = sources::unzip(
        from, [&](std::span<const std::byte> bytes) { write_all(to.get(), bytes, path); });
    if (!problem.empty())
      throw DatasetError(fmt::format("{}: {}: {}", options_.name, path, problem));
    done_ += from.size();
  }

  const SourceOptions& options_;
  const DataRoot& root_;
  const NeedsUnpacking& needs_;
  const fs::path folder_;
  Bytes done_ = 0, total_ = 0;
};

Digest as_it_is(const SourceOptions& options, const NeedsUnpacking& needs) {
  ContentHash hash;
  hash.add(needs.parts.head.listing);
  hash.add(needs.format);
  if (needs.by == By::video) hash.add(kVideoMagic);
  hash.add(options.column);
  hash.add(options.label_column);
  return hash.digest();
}

}  // namespace

std::shared_ptr<const DataRoot> unpacked(const SourceOptions& options,
                                         const std::shared_ptr<const DataRoot>& root,
                                         const NeedsUnpacking& needs) {
  if (options.index_folder.empty() && options.unpack_folder.empty())
    throw DatasetError(fmt::format(
        "{}: its samples cannot be read one by one, and there is no folder to unpack them to; have "
        "a service serve it, or unpack it yourself",
        options.name));
  return kept_folder(
      options, root, {"unpacked", 0, as_it_is(options, needs)},
      [&](const fs::path& folder) { Unpacking(options, *root, needs, folder).run(); });
}

bool is_zipped_shard(std::string_view path) {
  return path.ends_with(".mds.zstd") || path.ends_with(".mds.zst") || path.ends_with(".mds.gz");
}

}  // namespace batchflow::sources
