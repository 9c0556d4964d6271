// Finds the files of a dataset. This is the first half of indexing. Where nothing has changed since
// the index was made, it is all that a service does when it starts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/sources/content_hash.h"
#include "runtime/sources/index_builder.h"
#include "runtime/sources/source_format.h"

namespace batchflow::sources {

// All files below the root, also those that do not belong to the dataset.
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
  bool all = false;     // whatever its name is
  bool nested = false;  // files that lie in folders alone
  bool operator()(std::string_view path) const {
    return (all || format->takes == nullptr || format->takes(path)) &&
           (!nested || path.find('/') != std::string_view::npos);
  }
};

// A hash of names, sizes and times of files. It is cheap, and shows at every start whether the
// dataset has changed.
class ListingHash {
 public:
  explicit ListingHash(const SourceOptions& options) {
    hash_.add(options.tokens_per_sample);
    hash_.add(options.token_type);
    if (options.documents) hash_.add(std::uint64_t{1});
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

// Thrown where a number of tokens is given, and the format holds documents.
struct WantsSequences {};

Listing list_files(IndexBuilder& builder);
// Chooses the format that SourceOptions::format names, or one that fits the files. Throws
// DatasetError, WantsSequences.
Taken choose_format(IndexBuilder& builder, const Listing& listing);
// Adds the files that belong to the dataset to the builder.
void take_files(IndexBuilder& builder, const Listing& listing, const Taken& taken);

// Whether the dataset has not changed since the index with this head was made.
bool is_unchanged(const SourceOptions& options, const DataRoot& root, const IndexHead& head);

}  // namespace batchflow::sources
