// An index in the making: the files that were found, what a format finds in them, and the hash that
// becomes the dataset's version.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/sources/content_hash.h"
#include "runtime/sources/dataset_file.h"
#include "runtime/sources/index_file.h"
#include "runtime/sources/sample_index.h"

namespace batchflow {

class IndexBuilder {
 public:
  IndexBuilder(const SourceOptions& source, const DataRoot& opened)
      : options(source), root(opened) {}

  const SourceOptions& options;
  const DataRoot& root;
  bool is_public = false;  // files are opened only as long as everybody may read them
  IndexParts parts;
  ContentHash content;

  std::uint32_t files() const { return static_cast<std::uint32_t>(parts.numbers[0].size()); }
  std::string_view path(std::uint32_t file) const;
  void add_file(std::string_view path, Bytes bytes);

  // A sample of the file being read.
  void add_sample(std::uint64_t offset, Bytes bytes, std::int64_t label);
  // Where names of samples are not told by files and numbers.
  void add_name(std::string_view name);
  std::uint64_t samples() const { return parts.head.samples; }

  // Calls read(DatasetFile&) for each file in turn; afterwards its samples end, and it must be as
  // it was found.
  template <class Read>
  void read_files(Read read) {
    for (std::uint32_t file = 0; file < files(); ++file) {
      DatasetFile data(root, path(file), is_public);
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
  // The bytes of files are part of the version at places that are fixed: for formats whose own
  // checksums or headers do not tell contents apart.
  void add_sampled_contents();

  // Something people should know; beyond a bound such notes are only counted.
  void note(std::string note);
  // Asks whether to stop (then throws DatasetError) and reports, both now and then.
  void tick(std::uint64_t done, std::uint64_t of);
  // So much more memory is taken, or given back. Throws DatasetError for more than may be.
  void hold(Bytes bytes);
  void let_go(Bytes bytes) { held_ -= bytes; }
  std::uint64_t bytes_done() const { return done_; }
  std::uint64_t bytes_total() const { return total_; }

  // The last strokes: version, counted notes.
  void finish();
  [[noreturn]] void refuse(std::string_view path, std::string_view problem) const;

 private:
  static constexpr std::size_t kNotesMost = 20;

  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
  std::uint64_t more_notes_ = 0;
  Bytes held_ = 0;
  std::chrono::steady_clock::time_point told_{};
};

}  // namespace batchflow
