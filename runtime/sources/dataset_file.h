// Files of a dataset, while it is indexed or packed.
//
// A file is named by the dataset's root, an open folder, and a path below it; neither links nor
// `..` lead out of the root. Nothing is mapped: whoever may write to a dataset can cut a file at
// any time, and that must not end the process. A root is opened once: a path that is looked up
// again may lead elsewhere by then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/protocol/descriptor.h"
#include "runtime/sources/byte_view.h"
#include "runtime/sources/sample_index.h"

namespace batchflow {

// Something is not as it was a moment ago: indexing begins anew.
class DatasetChanged : public DatasetError {
 public:
  using DatasetError::DatasetError;
};

// -1 and errno, as openat. Links inside that stay beneath the root are followed, if any are.
int open_beneath(int root, const char* path, int flags, bool follows_links = true);

// A dataset's place, opened.
struct DataRoot {
  Descriptor folder;  // its files are opened below it
  std::string only;   // the file below it that is all of the dataset; empty: the folder is
  Descriptor file;    // that file

  // What a user must be able to read to have the dataset.
  int shown() const { return only.empty() ? folder.get() : file.get(); }
};
// root_folder of sample_index.h, opened. Throws DatasetError.
std::shared_ptr<const DataRoot> open_data(const std::filesystem::path& root);
// The same of a place that somebody has opened and shows. Null where the path leads elsewhere.
// Throws DatasetError where this process cannot read it.
std::shared_ptr<const DataRoot> open_shown(const std::filesystem::path& root, int shown);
// Where an open file or folder lies now; empty where the system does not tell.
std::string path_of(int descriptor);
bool is_same_file(int one, int other);

// The folder of open_data alone; `only` is the name of a root that is a file.
Descriptor open_root(const std::filesystem::path& root, std::string& only);

class DatasetFile final : public ByteView {
 public:
  // Throws DatasetChanged when it is not there any more, DatasetError when it cannot be read.
  DatasetFile(int root, std::string_view path);
  // `is_public`: also when a link leads to it, or not everybody may read it.
  DatasetFile(const DataRoot& root, std::string_view path, bool is_public);

  Bytes size() const override { return size_; }
  std::int64_t modified_ns() const { return modified_ns_; }
  // Reads around it a little; throws DatasetError when reading fails.
  std::span<const std::byte> view(std::uint64_t offset, std::size_t bytes) override;
  // Called before each read: a file is large, and what looks through it may be to stop.
  void when_reading(std::function<void()> call) { when_reading_ = std::move(call); }
  // Throws DatasetChanged unless it is as it was when opened.
  void check_unchanged() const;

 private:
  void take(int opened, bool is_public);

  std::string path_;
  Descriptor fd_;
  Bytes size_ = 0;
  std::int64_t modified_ns_ = 0;
  std::function<void()> when_reading_;
  std::vector<std::byte> buffer_;
  std::uint64_t buffer_at_ = 0;
  std::size_t buffered_ = 0;
};

}  // namespace batchflow
