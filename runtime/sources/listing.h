// Which files there are, and which of them are the dataset: the first half of indexing, and all
// that is done at a start where nothing has changed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/sources/content_hash.h"
#include "runtime/sources/index_builder.h"
#include "runtime/sources/source_format.h"

namespace batchflow {

// All files there are, before a format takes its own.
struct Listing {
  struct File {
    std::uint64_t path_end;
    Bytes bytes;
    std::int64_t modified_ns;
  };
  std::string paths;
  std::vector<File> files;
  std::vector<std::string> top_folders;
  std::uint64_t links = 0;
  std::uint64_t specials = 0;

  Bytes held() const { return paths.size() + files.size() * sizeof(File); }
  std::string_view path(std::size_t file) const {
    const std::uint64_t begin = file == 0 ? 0 : files[file - 1].path_end;
    return std::string_view(paths).substr(begin, files[file].path_end - begin);
  }
};

// Which of the files belong to the dataset.
struct Taken {
  const SourceFormat* format;
  bool all = false;
  bool nested = false;
  bool operator()(std::string_view path) const {
    return (all || format->takes == nullptr || format->takes(path)) &&
           (!nested || path.find('/') != std::string_view::npos);
  }
};

// What tells whether the dataset is as it was: cheap, and asked at every start.
class ListingHash {
 public:
  explicit ListingHash(const SourceOptions& options) {
    hash_.add(options.tokens_per_sample);
    hash_.add(options.token_type);
  }
  void add(std::string_view path, Bytes bytes, std::int64_t modified_ns) {
    hash_.add(path);
    hash_.add(bytes);
    hash_.add(static_cast<std::uint64_t>(modified_ns));
  }
  void add_folder(std::string_view path) {
    if (path.find('/') == std::string_view::npos) folders_.add(path);
  }
  Digest digest(bool with_folders) {
    if (with_folders) hash_.add(folders_.digest());
    return hash_.digest();
  }

 private:
  ContentHash hash_;
  ContentHash folders_;
};

Listing list_files(IndexBuilder& builder);
// By SourceOptions::format, or by what is there. Throws DatasetError.
Taken choose_format(IndexBuilder& builder, const Listing& listing);
// Gives the files that are taken to the builder.
void take_files(IndexBuilder& builder, const Listing& listing, const Taken& taken);

// Is the dataset what the index with this head was made from?
bool still_true(const SourceOptions& options, const DataRoot& root, const IndexHead& head);

}  // namespace batchflow
