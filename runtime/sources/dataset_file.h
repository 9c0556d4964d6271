// Files of a dataset, while it is indexed or packed.
//
// A file is named by the dataset's root, which is an open folder, and a path below it; links and
// `..` that leave the root are refused. Files are not mapped: another process may cut a file at any
// time, and that must not end this process. A root is opened once, since its path may lead
// elsewhere later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/objects/object_store.h"
#include "runtime/protocol/descriptor.h"
#include "runtime/sources/byte_view.h"
#include "runtime/sources/sample_index.h"

namespace batchflow::sources {

// A file or folder has changed meanwhile: indexing begins again.
class DatasetChanged : public DatasetError {
 public:
  using DatasetError::DatasetError;
};

// -1 and errno, as openat. `follows_links`: links that stay beneath the root are followed.
int open_beneath(int root, const char* path, int flags, bool follows_links = true);

// The open root of a dataset.
struct DataRoot {
  protocol::Descriptor folder;  // files are opened below it
  std::string only;  // the name of the only file of the dataset; empty: it is the whole folder
  protocol::Descriptor file;                    // the only file
  std::shared_ptr<objects::ObjectStore> store;  // of a URL: there is no folder and no descriptor

  std::shared_ptr<const DataRoot> packed;  // what this was unpacked from; null: it is read in place

  // The descriptor that shows that a user may read the dataset; -1 of a URL.
  int shown() const {
    if (packed) return packed->shown();
    return only.empty() ? folder.get() : file.get();
  }
  // Whether it is a URL.
  bool is_of_store() const { return packed ? packed->is_of_store() : store != nullptr; }
};
// Opens root_folder() of sample_index.h. Throws DatasetError, also for a device, pipe or socket.
std::shared_ptr<const DataRoot> open_data(const std::filesystem::path& root);
// The same for a root that a job has opened and shows. Null where the path leads elsewhere. Throws
// DatasetError where this process cannot read it.
std::shared_ptr<const DataRoot> open_shown(const std::filesystem::path& root, int shown);
// The present path of an open file or folder; empty where the system does not know it.
std::string path_of(int descriptor);
bool is_same_file(int one, int other);

// Opens only the folder of open_data(). Where the root is a file, `only` becomes its name.
protocol::Descriptor open_root(const std::filesystem::path& root, std::string& only);

class DatasetFile final : public ByteView {
 public:
  // Throws DatasetChanged where the file is no longer there, DatasetError where it cannot be read.
  DatasetFile(int root, std::string_view path);
  // `is_public`: it also throws DatasetChanged where the path is a link, or not all users of the
  // machine may read the file.
  DatasetFile(const DataRoot& root, std::string_view path, bool is_public);
  // An object of a store, as it was listed.
  DatasetFile(const DataRoot& root, std::string_view path, const objects::ObjectInfo& listed);

  Bytes size() const override { return size_; }
  std::int64_t modified_ns() const { return modified_ns_; }
  // Reads a little more than is asked for. Throws DatasetError where reading fails.
  std::span<const std::byte> view(std::uint64_t offset, std::size_t bytes) override;
  // Reads exactly these bytes, into the caller's memory. Throws as view() does, and DatasetChanged
  // where the file ends before them.
  void read(std::uint64_t offset, std::span<std::byte> to);
  // Tells the system that it may read these bytes before they are asked for.
  void will_be_read(std::uint64_t offset, Bytes bytes) const;
  // `call` is called before each read. It may throw, to stop work on a large file.
  void when_reading(std::function<void()> call) { when_reading_ = std::move(call); }
  // Throws DatasetChanged unless the file is as it was when it was opened.
  void check_unchanged() const;

 private:
  void take(int opened, bool is_public);
  Bytes read_at_least(std::uint64_t offset);
  void read_object(std::uint64_t offset, std::span<std::byte> to);

  std::string path_;
  protocol::Descriptor fd_;
  std::shared_ptr<objects::ObjectStore> store_;  // instead of fd_
  std::uint64_t mark_ = 0;
  Bytes size_ = 0;
  std::int64_t modified_ns_ = 0;
  std::function<void()> when_reading_;
  std::vector<std::byte> buffer_;
  std::uint64_t buffer_at_ = 0;
  std::size_t buffered_ = 0;
};

}  // namespace batchflow::sources
