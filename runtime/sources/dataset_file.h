// Files of a dataset, while it is indexed or packed.
//
// A file is named by the dataset's root, an open folder, and a path below it; neither links nor
// `..` lead out of the root. Nothing is mapped: whoever may write to a dataset can cut a file at
// any time, and that must not end the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
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

// -1 and errno, as openat. Links inside that stay beneath the root are followed.
int open_beneath(int root, const char* path, int flags);

// root_folder of sample_index.h, opened; `only` is the name of a root that is a file.
Descriptor open_root(const std::filesystem::path& root, std::string& only);

class DatasetFile final : public ByteView {
 public:
  // Throws DatasetChanged when it is not there any more, DatasetError when it cannot be read.
  DatasetFile(int root, std::string_view path);

  Bytes size() const override { return size_; }
  std::int64_t modified_ns() const { return modified_ns_; }
  // Reads around it a little; throws DatasetError when reading fails.
  std::span<const std::byte> view(std::uint64_t offset, std::size_t bytes) override;
  // Throws DatasetChanged unless it is as it was when opened.
  void check_unchanged() const;

 private:
  std::string path_;
  Descriptor fd_;
  Bytes size_ = 0;
  std::int64_t modified_ns_ = 0;
  std::vector<std::byte> buffer_;
  std::uint64_t buffer_at_ = 0;
  std::size_t buffered_ = 0;
};

}  // namespace batchflow
