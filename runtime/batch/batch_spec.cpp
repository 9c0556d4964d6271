#include "runtime/batch/batch_spec.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/check.h"
#include "fmt/format.h"

namespace batchflow::batch {
namespace {

struct Element {
  std::string_view name;
  Bytes bytes;
};
constexpr std::array<Element, kElementTypes> kElements = {{{"u8", 1},
                                                           {"i8", 1},
                                                           {"u16", 2},
                                                           {"i16", 2},
                                                           {"i32", 4},
                                                           {"i64", 8},
                                                           {"f16", 2},
                                                           {"bf16", 2},
                                                           {"f32", 4},
                                                           {"f64", 8}}};

// No slot could hold two samples that are larger.
constexpr Bytes kSampleMost = Bytes{1} << 36;

Bytes aligned(Bytes at) {
  return (at + 63) & ~Bytes{63};
}

std::int64_t offset_at(const std::byte* offsets, std::uint64_t index) {
  std::int64_t value;
  std::memcpy(&value, offsets + index * sizeof value, sizeof value);
  return value;
}
void set_offset(std::byte* offsets, std::uint64_t index, std::int64_t value) {
  std::memcpy(offsets + index * sizeof value, &value, sizeof value);
}

}  // namespace

Bytes element_bytes(ElementType type) {
  return kElements[static_cast<std::size_t>(type)].bytes;
}

std::string_view element_name(ElementType type) {
  return kElements[static_cast<std::size_t>(type)].name;
}

std::optional<ElementType> element_from(std::string_view name) {
  for (std::size_t i = 0; i < kElements.size(); ++i)
    if (kElements[i].name == name) return static_cast<ElementType>(i);
  return std::nullopt;
}

Bytes Field::row_bytes() const {
  Bytes bytes = element_bytes(type);
  for (std::size_t i = ragged ? 1 : 0; i < shape.size(); ++i) bytes *= shape[i];
  return bytes;
}

const Field* BatchSpec::find(std::string_view name) const {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const Field& field) { return field.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

std::string BatchSpec::problem() const {
  if (fields.empty()) return "a batch needs at least one field";
  if (fields.size() > kFieldsMost) return fmt::format("more than {} fields", kFieldsMost);
  Bytes total = 0;
  for (const Field& field : fields) {
    if (field.name.empty() || field.name.size() > Field::kNameMost)
      return fmt::format("a field's name has 1 to {} bytes", Field::kNameMost);
    // Names are texts in C, and in messages.
    if (std::any_of(field.name.begin(), field.name.end(),
                    [](char c) { return static_cast<unsigned char>(c) < ' '; }))
      return "a field's name has a character that cannot be shown";
    if (find(field.name) != &field) return fmt::format("two fields are called '{}'", field.name);
    if (static_cast<std::size_t>(field.type) >= kElementTypes)
      return fmt::format("field '{}' has no known type", field.name);
    if (field.shape.size() > Field::kDimensionsMost)
      return fmt::format("field '{}' has more than {} dimensions", field.name,
                         Field::kDimensionsMost);
    if (field.ragged && field.shape.empty())
      return fmt::format("field '{}' is ragged and has no dimension that could differ", field.name);
    Bytes bytes = element_bytes(field.type);
    for (const std::uint64_t size : field.shape) {
      if (size == 0) return fmt::format("field '{}' has a dimension of zero", field.name);
      if (size > kSampleMost / bytes)
        return fmt::format("field '{}' takes more than {} bytes a sample", field.name, kSampleMost);
      bytes *= size;
    }
    total += bytes;
    if (total > kSampleMost) return fmt::format("a sample takes more than {} bytes", kSampleMost);
  }
  return {};
}

BlockLayout::BlockLayout(const BatchSpec& spec, std::uint32_t n) : samples(n) {
  BF_CHECK(n > 0);
  Bytes at = 0;
  const auto take = [&at](Bytes size) {
    const Bytes begin = at;
    at = aligned(at + size);
    return begin;
  };
  for (const Field& field : spec.fields) {
    FieldLayout layout;
    layout.ragged = field.ragged;
    layout.row_bytes = field.row_bytes();
    layout.rows_most = field.rows_most();
    layout.values = take(layout.row_bytes * layout.rows_most * n);
    if (field.ragged) layout.offsets = take((Bytes{n} + 1) * sizeof(std::int64_t));
    fields.push_back(layout);
  }
  keys = take(Bytes{n} * sizeof(std::uint64_t));
  wanted = take(Bytes{n} * sizeof(std::uint64_t));
  marks = take(n);
  bytes = at;
}

std::byte* BlockWriter::row(std::size_t field, std::uint32_t index) const {
  const BlockLayout::FieldLayout& where = layout_->fields[field];
  return slot_ + where.values + where.row_bytes * index;
}

std::byte* BlockWriter::begin_rows(std::size_t field, std::uint32_t index) const {
  const BlockLayout::FieldLayout& where = layout_->fields[field];
  if (index == 0) set_offset(slot_ + where.offsets, 0, 0);
  return slot_ + where.values +
         where.row_bytes * static_cast<Bytes>(offset_at(slot_ + where.offsets, index));
}

void BlockWriter::end_rows(std::size_t field, std::uint32_t index, std::uint64_t rows) const {
  const BlockLayout::FieldLayout& where = layout_->fields[field];
  BF_CHECK(rows <= where.rows_most);
  std::byte* offsets = slot_ + where.offsets;
  set_offset(offsets, index + 1, offset_at(offsets, index) + static_cast<std::int64_t>(rows));
}

std::byte* BlockWriter::resize_rows(std::size_t field, std::uint32_t index,
                                    std::uint64_t rows) const {
  const BlockLayout::FieldLayout& where = layout_->fields[field];
  BF_CHECK(rows <= where.rows_most);
  std::byte* offsets = slot_ + where.offsets;
  std::byte* values = slot_ + where.values;
  const std::int64_t begin = offset_at(offsets, index);
  const std::int64_t end = offset_at(offsets, index + 1);
  const std::int64_t more = begin + static_cast<std::int64_t>(rows) - end;
  const auto row_bytes = static_cast<std::int64_t>(where.row_bytes);
  std::memmove(values + (end + more) * row_bytes, values + end * row_bytes,
               static_cast<Bytes>((offset_at(offsets, layout_->samples) - end) * row_bytes));
  for (std::uint32_t k = index + 1; k <= layout_->samples; ++k)
    set_offset(offsets, k, offset_at(offsets, k) + more);
  return values + begin * row_bytes;
}

void BlockWriter::set_key(std::uint32_t index, SampleId used, SampleId wanted_key,
                          std::uint8_t marks) const {
  std::memcpy(slot_ + layout_->keys + Bytes{index} * 8, &used.value, 8);
  std::memcpy(slot_ + layout_->wanted + Bytes{index} * 8, &wanted_key.value, 8);
  slot_[layout_->marks + index] = static_cast<std::byte>(marks);
}

void copy_samples(const BlockLayout& from_layout, const std::byte* from_slot, std::uint32_t from,
                  std::uint32_t to, const BlockLayout& to_layout, std::byte* to_slot,
                  std::uint32_t at, std::uint8_t marks) {
  BF_CHECK(from <= to && to <= from_layout.samples && at + (to - from) <= to_layout.samples);
  const Bytes n = to - from;
  for (std::size_t i = 0; i < from_layout.fields.size(); ++i) {
    const BlockLayout::FieldLayout& source = from_layout.fields[i];
    const BlockLayout::FieldLayout& target = to_layout.fields[i];
    const std::byte* values = from_slot + source.values;
    if (!source.ragged) {
      std::memcpy(to_slot + target.values + target.row_bytes * at, values + source.row_bytes * from,
                  source.row_bytes * n);
      continue;
    }
    const std::byte* offsets = from_slot + source.offsets;
    std::byte* to_offsets = to_slot + target.offsets;
    if (at == 0) set_offset(to_offsets, 0, 0);
    const std::int64_t first = offset_at(offsets, from);
    const std::int64_t begin = offset_at(to_offsets, at);
    std::memcpy(to_slot + target.values + target.row_bytes * static_cast<Bytes>(begin),
                values + source.row_bytes * static_cast<Bytes>(first),
                source.row_bytes * static_cast<Bytes>(offset_at(offsets, to) - first));
    for (std::uint32_t k = 1; k <= n; ++k)
      set_offset(to_offsets, at + k, begin + offset_at(offsets, from + k) - first);
  }
  std::memcpy(to_slot + to_layout.keys + Bytes{at} * 8,
              from_slot + from_layout.keys + Bytes{from} * 8, n * 8);
  std::memcpy(to_slot + to_layout.wanted + Bytes{at} * 8,
              from_slot + from_layout.wanted + Bytes{from} * 8, n * 8);
  for (std::uint32_t k = 0; k < n; ++k)
    to_slot[to_layout.marks + at + k] =
        from_slot[from_layout.marks + from + k] | static_cast<std::byte>(marks);
}

}  // namespace batchflow::batch
