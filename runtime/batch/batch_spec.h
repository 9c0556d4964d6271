// What a batch consists of: docs/batches.md as types.
//
// A job's fields follow from its dataset and pipeline alone, and never change while it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace batchflow {

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
  std::vector<std::uint64_t>
      shape;  // of one sample; ragged: the first is the most rows it may have
  bool ragged = false;

  // Of a dense sample, or of one row of a ragged one.
  Bytes row_bytes() const;
  std::uint64_t rows_most() const { return ragged ? shape.front() : 1; }
  friend bool operator==(const Field&, const Field&) = default;
};

enum Mark : std::uint8_t { kFiller = 1, kReplaced = 2, kRehearsed = 4 };

struct BatchSpec {
  static constexpr std::size_t kFieldsMost = 64;

  std::vector<Field> fields;

  const Field* find(std::string_view name) const;
  // Empty, or why no batch can be like this: a name twice, no rows, more bytes than there are.
  std::string problem() const;
  friend bool operator==(const BatchSpec&, const BatchSpec&) = default;
};

// Where everything is in a slot that holds `samples` samples. Offsets are multiples of 64.
struct BlockLayout {
  struct FieldPlace {
    Bytes values = 0;
    Bytes offsets = 0;  // ragged: of samples + 1 int64
    Bytes row_bytes = 0;
    std::uint64_t rows_most = 1;  // of one sample
    bool ragged = false;
  };
  std::vector<FieldPlace> fields;
  Bytes keys = 0;    // u64 each
  Bytes wanted = 0;  // u64 each
  Bytes marks = 0;   // u8 each
  Bytes bytes = 0;   // of the slot
  std::uint32_t samples = 0;

  BlockLayout() = default;
  // REQUIRES: spec.problem() is empty
  BlockLayout(const BatchSpec& spec, std::uint32_t samples);
};

// A slot being filled, sample by sample and in turn: places of ragged fields follow each other.
class BlockWriter {
 public:
  BlockWriter(const BlockLayout& layout, std::byte* slot) : layout_(&layout), slot_(slot) {}

  const BlockLayout& layout() const { return *layout_; }
  // Of a dense field: where the sample's row is.
  std::byte* row(std::size_t field, std::uint32_t place) const;
  // Of a ragged one: room for up to rows_most rows; `end_rows` says how many there are.
  // REQUIRES: all places before this one have been ended
  std::byte* begin_rows(std::size_t field, std::uint32_t place) const;
  void end_rows(std::size_t field, std::uint32_t place, std::uint64_t rows) const;
  // Room for so many rows where `place` has had others: all that follow move.
  // REQUIRES: all places have been ended
  std::byte* resize_rows(std::size_t field, std::uint32_t place, std::uint64_t rows) const;
  void set_key(std::uint32_t place, SampleId used, SampleId wanted, std::uint8_t marks) const;

 private:
  const BlockLayout* layout_;
  std::byte* slot_;
};

// Copies samples [from, to) of a block to place `at` of another slot; their marks get `marks`
// added. REQUIRES: both layouts are of one spec; ragged: places before `at` have been written
void copy_samples(const BlockLayout& from_layout, const std::byte* from_slot, std::uint32_t from,
                  std::uint32_t to, const BlockLayout& to_layout, std::byte* to_slot,
                  std::uint32_t at, std::uint8_t marks);

}  // namespace batchflow
