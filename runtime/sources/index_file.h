// An index as it is built, and as the bytes of its file.
//
//   file := "BFINDEX\n", version (4), length of the head (4), head, sections, CRC-32C of all (4)
//
// Sections are arrays of 8-byte numbers and runs of names, each at a multiple of 8. Whatever a
// damaged or hostile file says, IndexView either refuses it or answers within the bytes it has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/sources/byte_view.h"
#include "runtime/sources/sample_index.h"

namespace batchflow {

// What there is of a dataset beside its long lists.
struct IndexHead {
  std::string format;
  RecordKind kind = RecordKind::whole;
  bool takes_all = false;     // files: not only those with the format's endings
  bool takes_nested = false;  // only those in folders
  Digest version = 0;
  Digest listing = 0;  // of the files' names, sizes and times: whether to look again
  std::uint64_t samples = 0;
  Bytes row_bytes = 0;  // rows: of each sample
  BatchSpec fields;
  std::vector<std::string> classes;
  std::vector<std::string> notes;
};

// The long lists; those that a kind has no use for are empty.
enum class IndexSection : std::uint8_t {
  path_ends,    // a file: behind the zero that ends its path
  file_bytes,   // a file
  sample_ends,  // a file: behind its last sample. Empty: each file is a sample
  data_begins,  // a file: where its rows begin
  offsets,      // a sample: where in its file
  sizes,        // a sample
  labels,       // a sample: kNoLabel where it has none. Empty: none has
  name_ends,    // a sample
  paths,        // each ends with a zero
  names,        // of samples that have names of their own
};
inline constexpr std::size_t kNumberSections = 8;
inline constexpr std::size_t kIndexSections = 10;

struct IndexParts {
  IndexHead head;
  std::vector<std::uint64_t> numbers[kNumberSections];
  std::string paths;
  std::string names;

  std::vector<std::uint64_t>& list(IndexSection section) {
    return numbers[static_cast<std::size_t>(section)];
  }
};

// Gives the bytes of the file to `write`, piece by piece.
void write_index(const IndexParts& parts,
                 const std::function<void(std::span<const std::byte>)>& write);

class IndexView {
 public:
  // Empty, or why these are not the bytes of an index. They live as long as the view. Throws
  // DatasetError when it is to stop.
  std::string read(std::span<const std::byte> bytes, const StopAsked& stop = {});

  const IndexHead& head() const { return head_; }
  std::uint32_t files() const { return static_cast<std::uint32_t>(count(IndexSection::path_ends)); }
  // REQUIRES for all: file < files(), sample < head().samples
  std::string_view path(std::uint32_t file) const;
  Bytes file_bytes(std::uint32_t file) const { return number(IndexSection::file_bytes, file); }
  Extent extent(std::uint64_t sample) const;
  bool has_labels() const { return count(IndexSection::labels) > 0; }
  std::int64_t label(std::uint64_t sample) const;
  std::string name(std::uint64_t sample) const;

 private:
  std::string check(const StopAsked& stop) const;
  std::uint64_t count(IndexSection section) const { return at(section).size() / 8; }
  std::span<const std::byte> at(IndexSection section) const {
    return sections_[static_cast<std::size_t>(section)];
  }
  std::uint64_t number(IndexSection section, std::uint64_t place) const {
    return load<std::uint64_t>(at(section), place * 8);
  }
  // Of a list of ends: where the part at `place` begins.
  std::uint64_t begin(IndexSection ends, std::uint64_t place) const {
    return place == 0 ? 0 : number(ends, place - 1);
  }
  std::uint32_t file_of(std::uint64_t sample) const;

  IndexHead head_;
  std::span<const std::byte> sections_[kIndexSections];
};

}  // namespace batchflow
