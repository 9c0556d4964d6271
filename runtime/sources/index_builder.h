// Builds an index: it holds the files that were found, the samples that a format finds in them, and
// the hash that becomes the dataset's version.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/sources/content_hash.h"
#include "runtime/sources/dataset_file.h"
#include "runtime/sources/index_file.h"
#include "runtime/sources/sample_index.h"

namespace batchflow::sources {

class IndexBuilder {
 public:
  IndexBuilder(const SourceOptions& source, const DataRoot& opened)
      : options(source), root(opened) {}

  const SourceOptions& options;
  const DataRoot& root;
  bool is_public = false;  // only files that all users of the machine may read are opened
  IndexParts parts;
  ContentHash content;

  std::uint32_t files() const { return static_cast<std::uint32_t>(parts.numbers[0].size()); }
  std::string_view path(std::uint32_t file) const;
  // `mark` of an object of a store; of a file it is 0.
  void add_file(std::string_view path, Bytes bytes, std::uint64_t mark = 0);
  DatasetFile open_file(std::uint32_t file) const;

  // Adds a sample of the file that is being read.
  void add_sample(std::uint64_t offset, Bytes bytes, std::int64_t label);
  // Adds the name of the last sample, for formats where samples have names of their own.
  void add_name(std::string_view name);
  std::uint64_t samples() const { return parts.head.samples; }

  // Calls read(DatasetFile&, path) for each file in turn. All samples that `read` adds are of that
  // file. The file must not have changed since it was found.
  template <class Read>
  void read_files(Read read) {
    for (std::uint32_t file = 0; file < files(); ++file) {
      DatasetFile data = open_file(file);
      if (data.size() != parts.list(IndexSection::file_bytes)[file])
        throw DatasetChanged(std::string(path(file)) + ": its size changed");
      data.when_reading([this] { tick(done_, total_); });
      read(data, path(file));
      data.check_unchanged();
      parts.list(IndexSection::sample_ends).push_back(samples());
      done_ += data.size();
      tick(done_, total_);
    }
  }
  // Adds bytes of the files, at fixed offsets, to the version. This is for formats without
  // checksums that would tell contents apart.
  void add_sampled_contents();

  // Adds a note for people. Notes beyond a bound are only counted.
  void note(std::string note);
  // Now and then reports progress, and asks whether to stop. Throws DatasetError if so.
  void tick(std::uint64_t done, std::uint64_t total);
  // So much more memory is taken, or was released. Throws DatasetError for more than is allowed.
  void hold(Bytes bytes);
  void release(Bytes bytes) { held_ -= bytes; }

  // Ends the index: adds the count of further notes, and sets the version.
  void finish();
  [[noreturn]] void refuse(std::string_view path, std::string_view problem) const;

 private:
  static constexpr std::size_t kNotesMost = 20;

  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
  std::uint64_t more_notes_ = 0;
  Bytes held_ = 0;
  std::chrono::steady_clock::time_point reported_at_{};
};

}  // namespace batchflow::sources
