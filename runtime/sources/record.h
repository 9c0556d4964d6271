// Finds the fields in a stored sample, for every kind of record. A pipeline does this first.
//
// The parts stay in the record itself where possible; only numbers that are stored in another form
// are written out. Each worker has its own RecordParts, which allocates nothing after it has seen
// the largest record. Records come from files and are checked; a corrupt one is a normal answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/types.h"
#include "runtime/batch/batch_spec.h"
#include "runtime/sources/sample_index.h"

namespace batchflow::sources {

struct Part {
  std::string_view name;  // as stored; of a whole file `bytes`
  batch::ElementType type = batch::ElementType::u8;
  std::span<const std::byte> bytes;  // elements, little-endian, at any address
  std::uint64_t elements() const { return bytes.size() / batch::element_bytes(type); }
};

class RecordParts {
 public:
  static constexpr std::size_t kPartsMost = 4096;

  // False: the record is corrupt, and problem() says how. Parts stay as long as the record,
  // `stored` (the index's stored_fields()) and this, until the next call. By kind:
  //   whole    `bytes`, the file
  //   tar      a part for each member, by what follows the first dot of its base name: `jpg`, `cls`
  //   example  the features; a list of several byte strings is several parts of one name
  //   packed   the stored fields, in order; a ragged one has as many rows as its bytes hold
  //   rows     the one stored field
  //   value    the same
  //   sequence the fields that a job is handed, made of what is stored
  bool find(RecordKind kind, std::span<const std::byte> record, const batch::BatchSpec& stored) {
    return find(kind, record, stored, Numbers::written_out);
  }
  // The same, but numbers that would have to be written out have no bytes: for callers that want
  // other parts.
  bool find_without_numbers(RecordKind kind, std::span<const std::byte> record,
                            const batch::BatchSpec& stored) {
    return find(kind, record, stored, Numbers::left_out);
  }

  // The most bytes that find() writes out of a record of `record` bytes; and of this record.
  static Bytes numbers_most(RecordKind kind, Bytes record);
  Bytes numbers_bytes(RecordKind kind, std::span<const std::byte> record);
  // Makes exactly `bytes` of room for it.
  void reserve_numbers(Bytes bytes) { numbers_.reserve(bytes); }
  Bytes held() const { return numbers_.capacity(); }
  void drop() { std::vector<std::byte>().swap(numbers_); }

  std::span<const Part> parts() const { return parts_; }
  // The first of that name, or null.
  const Part* part(std::string_view name) const;
  std::string_view problem() const { return problem_; }

 private:
  struct Written {  // a part that lies in `numbers_`
    std::size_t part;
    std::size_t at;
  };

  enum class Numbers : std::uint8_t { written_out, left_out };
  bool find(RecordKind kind, std::span<const std::byte> record, const batch::BatchSpec& stored,
            Numbers numbers);
  bool find_members(std::span<const std::byte> record);
  bool find_features(std::span<const std::byte> record);
  bool add_feature(std::string_view name, std::span<const std::byte> feature);
  bool add_numbers(std::string_view name, batch::ElementType type, std::span<const std::byte> list);
  bool find_fields(std::span<const std::byte> record, const batch::BatchSpec& stored);
  bool find_sequence(std::span<const std::byte> record, const batch::BatchSpec& fields);
  template <class Write>
  bool add_written(const batch::Field& field, Write write);
  bool add(std::string_view name, batch::ElementType type, std::span<const std::byte> bytes);
  bool fail(std::string_view problem);

  Numbers wanted_ = Numbers::written_out;
  Bytes left_out_ = 0;  // of numbers, at most
  std::vector<Part> parts_;
  std::vector<std::byte> numbers_;
  std::vector<Written> written_;
  std::string_view problem_;
};

// A whole number in digits, as in a `.cls` member. Blanks after it are ignored.
std::optional<std::int64_t> label_in_digits(std::string_view text);

// The field of a label, whether it comes from a folder's name, a `.cls` member or a feature.
inline constexpr std::string_view kLabelField = "label";
// Whether that field stands for a part of this name, where samples have labels.
bool is_label_part(RecordKind kind, std::string_view name);

// The label in a record: `image/class/label` or `label` of an example, `cls` of a tar, `label` of a
// packed record. None where there is none, or it is not a whole number.
std::optional<std::int64_t> stored_label(RecordKind kind, const RecordParts& parts);

}  // namespace batchflow::sources
