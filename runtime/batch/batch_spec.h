// What a batch consists of: the types of docs/batches.md.
//
// The fields of a job follow from its dataset and pipeline alone. They never change while it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/types.h"

namespace batchflow::batch {

enum class ElementType : std::uint8_t { u8, i8, u16, i16, i32, i64, f16, bf16, f32, f64 };
inline constexpr std::size_t kElementTypes = 10;
Bytes element_bytes(ElementType type);
std::string_view element_name(ElementType type);
std::optional<ElementType> element_from(std::string_view name);

struct Field {
  static constexpr std::size_t kDimensionsMost = 8;
  static constexpr std::size_t kNameMost = 64;

  std::string name;
  ElementType type = ElementType::u8;
  // Of one sample. Ragged: the first dimension is the most rows that a sample may have.
  std::vector<std::uint64_t> shape;
  bool ragged = false;  // samples have different numbers of rows

  // The bytes of a dense sample, or of one row of a ragged sample.
  Bytes row_bytes() const;
  std::uint64_t rows_most() const { return ragged ? shape.front() : 1; }
  friend bool operator==(const Field&, const Field&) = default;
};

// kCorrupt: the sample could not be prepared. Another replaces it, but not of a keyed job.
enum Mark : std::uint8_t { kFiller = 1, kReplaced = 2, kRehearsed = 4, kCorrupt = 8 };

struct BatchSpec {
  static constexpr std::size_t kFieldsMost = 64;

  std::vector<Field> fields;

  const Field* find(std::string_view name) const;
  // Empty, or why no batch can have these fields: a name stands twice, a dimension is 0, a sample
  // is too large.
  std::string problem() const;
  friend bool operator==(const BatchSpec&, const BatchSpec&) = default;
};

// Where the parts of a slot with `samples` samples begin. All offsets are multiples of 64.
struct BlockLayout {
  struct FieldLayout {
    Bytes values = 0;
    Bytes offsets = 0;  // ragged: here are samples + 1 numbers, int64 each
    Bytes row_bytes = 0;
    std::uint64_t rows_most = 1;  // of one sample
    bool ragged = false;          // samples have different numbers of rows
  };
  std::vector<FieldLayout> fields;
  Bytes keys = 0;    // u64 each
  Bytes wanted = 0;  // u64 each
  Bytes marks = 0;   // u8 each
  Bytes bytes = 0;   // the size of the slot
  std::uint32_t samples = 0;

  BlockLayout() = default;
  // REQUIRES: spec.problem() is empty
  BlockLayout(const BatchSpec& spec, std::uint32_t samples);
};

// Fills a slot with samples. Rows of ragged fields are written sample by sample, in ascending order
// of `index`, which is the sample's index in the slot.
class BlockWriter {
 public:
  BlockWriter(const BlockLayout& layout, std::byte* slot) : layout_(&layout), slot_(slot) {}

  const BlockLayout& layout() const { return *layout_; }
  // The row of a sample in a dense field.
  std::byte* row(std::size_t field, std::uint32_t index) const;
  // Room in a ragged field for up to rows_most rows; end_rows() says how many were written.
  // REQUIRES: end_rows() was called for all samples before this one
  std::byte* begin_rows(std::size_t field, std::uint32_t index) const;
  void end_rows(std::size_t field, std::uint32_t index, std::uint64_t rows) const;
  // Room for another number of rows of a sample; the rows of all samples after it move.
  // REQUIRES: end_rows() was called for all samples
  std::byte* resize_rows(std::size_t field, std::uint32_t index, std::uint64_t rows) const;
  void set_key(std::uint32_t index, SampleId used, SampleId wanted, std::uint8_t marks) const;

 private:
  const BlockLayout* layout_;
  std::byte* slot_;
};

// Copies samples [from, to) of a block to another slot, from index `at` on, and adds `marks` to
// their marks. REQUIRES: both layouts are of one spec; ragged: all samples before `at` were written
void copy_samples(const BlockLayout& from_layout, const std::byte* from_slot, std::uint32_t from,
                  std::uint32_t to, const BlockLayout& to_layout, std::byte* to_slot,
                  std::uint32_t at, std::uint8_t marks);

}  // namespace batchflow::batch
