// Arrow's files and streams (IPC), as they lie: which columns there are, and where the value of
// each row is. Hugging Face's `datasets` keeps its data in them. Buffers that are compressed cannot
// be read in place.
//
//   file := "ARROW1\0\0", stream, footer           stream := message ...
//   message := 0xffffffff, length (4), flatbuffer (Message), body
//
// Nothing in a file is trusted: each number is checked before it is used.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/sources/byte_view.h"
#include "runtime/sources/columns.h"

namespace batchflow::sources {

class FlatTable;

class ArrowFile {
 public:
  // Reads the schema. Answers what is wrong; empty: nothing.
  std::string open(ByteView& file);
  const std::vector<Column>& columns() const { return columns_; }
  // The names of a column's classes, where Hugging Face's `datasets` has noted them.
  std::vector<std::string> class_names(std::string_view column) const;

  // The next batch of rows; none: there is no more, or `problem` is not empty.
  struct Batch {
    std::uint64_t rows = 0;
    std::uint64_t body = 0;  // where its buffers begin, in the file
    struct Buffer {
      std::uint64_t offset = 0;
      Bytes bytes = 0;
    };
    std::vector<Buffer> buffers;
  };
  std::optional<Batch> next(ByteView& file, std::string& problem);

  // Where the values of a column lie in the file, row by row.
  struct Values {
    std::uint64_t begin = 0;          // of the buffer with the values
    std::vector<std::uint64_t> ends;  // of each row, from `begin` on, if rows differ
    std::uint64_t first = 0;          // where the first row begins, from `begin` on
    Bytes each = 0;                   // else the bytes of each row
    std::vector<std::byte> bytes;     // of a whole number: the values themselves
    std::vector<std::byte> valid;     // a bit for each row; empty: all are
    bool is_there(std::uint64_t row) const {
      return valid.empty() || (std::to_integer<unsigned>(valid[row / 8]) >> (row % 8) & 1) != 0;
    }
  };
  // Answers what is wrong; empty: nothing.
  std::string values(ByteView& file, const Batch& batch, std::size_t column, Values& out) const;

  // The error of a file that is sound, but cannot be read in place.
  static constexpr std::string_view kCompressed =
      "its buffers are compressed, so that no row can be read by itself";

 private:
  // Where a column's buffers are among those of a batch.
  struct Layout {
    std::size_t validity = 0, data = 0;  // numbers of buffers
    std::size_t list = 0;                // of the offsets of a list
    Bytes width = 0;                     // of offsets: 4 or 8; of numbers: of one
    std::uint64_t repeated = 1;          // numbers of a row, of a list of fixed size
    enum Kind { none, offsets, fixed, list_of_numbers } kind = none;
  };
  std::string read_schema(std::span<const std::byte> message);
  // A struct that is a picture, as Hugging Face's `datasets` has it: its bytes beside its path.
  void read_picture(const FlatTable& field, std::uint64_t parts_most, Column& column,
                    Layout& layout) const;
  // A list of numbers. False: its schema is damaged.
  bool read_list(const FlatTable& field, Column& column, Layout& layout) const;

  std::uint64_t at_ = 0;
  std::vector<Column> columns_;
  std::vector<Layout> layouts_;
  std::size_t buffers_ = 0;  // of a batch
  std::string notes_;        // JSON of Hugging Face's `datasets`
};

}  // namespace batchflow::sources
