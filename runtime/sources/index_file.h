// A dataset index: its parts as they are built, and the bytes of its file.
//
//   file := "BFINDEX\n", version (4), length of the head (4), head, sections, CRC-32C of all (4)
//
// Sections are arrays of 8-byte numbers and runs of names; each begins at a multiple of 8.
// IndexView refuses a damaged or hostile file; if it does not notice, its answers still stay within
// the bytes of the file.
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

namespace batchflow::sources {

// All of an index but its long lists.
struct IndexHead {
  std::string format;
  RecordKind kind = RecordKind::whole;
  bool takes_all = false;     // files of any ending, not only those of the format
  bool takes_nested = false;  // only files in folders
  Digest version = 0;
  Digest listing = 0;  // a hash of the files' names, sizes and times, to see whether they changed
  std::uint64_t samples = 0;
  Bytes row_bytes = 0;  // of each sample, if the records are rows
  batch::BatchSpec fields;
  std::vector<std::string> classes;
  std::vector<std::string> notes;
};

// The long lists. A list that a kind of record does not need is empty.
enum class IndexSection : std::uint8_t {
  path_ends,    // for each file: the end of its path in `paths`, with the zero that ends it
  file_bytes,   // for each file: its size
  sample_ends,  // for each file: the index after its last sample. Empty: each file is a sample
  data_begins,  // for each file: the offset of its first row
  offsets,      // for each sample: its offset in its file
  sizes,        // for each sample: its bytes
  labels,       // for each sample: its label, or kNoLabel. Empty: no sample has one
  name_ends,    // for each sample: the end of its name in `names`
  file_marks,   // for each file of a store: its mark
  paths,        // of the files; each ends with a zero
  names,        // of samples that have names of their own
};
inline constexpr std::size_t kNumberSections = 9;
inline constexpr std::size_t kIndexSections = 11;

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
  // Answers why these are not the bytes of an index; empty: they are. Throws DatasetError when it
  // is to stop. REQUIRES: the bytes live as long as the view
  std::string read(std::span<const std::byte> bytes, const StopAsked& stop = {});

  const IndexHead& head() const { return head_; }
  std::uint32_t files() const { return static_cast<std::uint32_t>(count(IndexSection::path_ends)); }
  // All of these REQUIRE: file < files(), sample < head().samples
  std::string_view path(std::uint32_t file) const;
  Bytes file_bytes(std::uint32_t file) const { return number(IndexSection::file_bytes, file); }
  // 0: it is no object of a store.
  std::uint64_t file_mark(std::uint32_t file) const {
    return count(IndexSection::file_marks) > 0 ? number(IndexSection::file_marks, file) : 0;
  }
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
  std::uint64_t number(IndexSection section, std::uint64_t index) const {
    return load<std::uint64_t>(at(section), index * 8);
  }
  // The begin of part `index`, from a list of ends.
  std::uint64_t begin(IndexSection ends, std::uint64_t index) const {
    return index == 0 ? 0 : number(ends, index - 1);
  }
  std::uint32_t file_of(std::uint64_t sample) const;

  IndexHead head_;
  std::span<const std::byte> sections_[kIndexSections];
};

}  // namespace batchflow::sources
