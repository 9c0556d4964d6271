#include "runtime/prepare/plan_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/prepare/numbers.h"

namespace batchflow::prepare {
namespace {

using Shape = std::vector<std::uint64_t>;

void check_part(config::ConfigSection& section, const sources::SampleIndex& dataset,
                const FieldEntry& entry, const std::string& name) {
  const batch::BatchSpec stored = stored_fields(dataset);
  if (name.empty() || stored.fields.empty()) return;
  const batch::Field* const part = stored.find(name);
  if (!part) refuse_part(section, section.has("from") ? "from" : "field", dataset, name);
  const bool needs_bytes = entry.kind == FieldKind::picture || entry.kind == FieldKind::mask ||
                           entry.kind == FieldKind::bytes || entry.kind == FieldKind::sound ||
                           entry.stored.form != StoredForm::plain;
  if (needs_bytes && part->type != batch::ElementType::u8)
    section.refuse("kind",
                   fmt::format("field '{}' is read from bytes, and '{}' holds {}", entry.name, name,
                               batch::element_name(part->type)),
                   "write kind: numbers");
  if (!needs_bytes && dataset.kind() == sources::RecordKind::tar)
    section.refuse(section.has("from") ? "from" : "field",
                   fmt::format("field '{}' is numbers, and nothing says how '{}' holds them",
                               entry.name, name),
                   "write stored: npy or stored: json");
}

// How many rows a sample has at most.
std::uint64_t rows_most(const sources::SampleIndex& dataset, const FieldEntry& entry,
                        const batch::Field* part, const Shape& row) {
  if (entry.rows_most > 0) return entry.rows_most;
  const std::uint64_t elements =
      !part ? dataset.sums().largest
            : part->row_bytes() * part->rows_most() / batch::element_bytes(part->type);
  std::uint64_t each = 1;
  if (entry.columns.empty())
    for (const std::uint64_t size : row) each = memory::counted_product(each, size);
  // A number of JSON takes two bytes at least.
  const bool is_json_number =
      entry.stored.form == StoredForm::json && entry.kind != FieldKind::bytes;
  return std::max<std::uint64_t>(1, (is_json_number ? elements / 2 + 1 : elements) / each);
}

Shape place_row(config::ConfigSection& section, const FieldEntry& entry) {
  if (entry.kind == FieldKind::boxes) return {4};
  if (!entry.columns.empty() && entry.shape)
    section.refuse("shape", fmt::format("field '{}' is read from x and y", entry.name),
                   "leave it out");
  const Shape row = entry.shape.value_or(Shape{2});
  if (row.back() < 2)
    section.refuse("shape", fmt::format("points of field '{}' have x and y", entry.name),
                   "write shape: [2], or [17, 3] for 17 points with a third number each");
  return row;
}

Shape row_of(const batch::Field& field) {
  return {field.shape.begin() + (field.ragged ? 1 : 0), field.shape.end()};
}

}  // namespace

batch::BatchSpec stored_fields(const sources::SampleIndex& dataset) {
  if (dataset.kind() != sources::RecordKind::whole) return dataset.stored_fields();
  return {{{"bytes", batch::ElementType::u8, {dataset.sums().largest}, true}}};
}

void refuse_part(config::ConfigSection& section, std::string_view key,
                 const sources::SampleIndex& dataset, const std::string& part) {
  std::string has;
  for (const batch::Field& field : stored_fields(dataset).fields)
    has += fmt::format("{}'{}'", has.empty() ? "" : ", ", field.name);
  section.refuse(key,
                 part.empty() ? fmt::format("dataset '{}' has no field but label", dataset.name())
                              : fmt::format("dataset '{}' has no field '{}'", dataset.name(), part),
                 fmt::format("its samples have {}", has));
}

void check_parts(config::ConfigSection& section, const sources::SampleIndex& dataset,
                 const FieldEntry& entry) {
  if (entry.columns.empty()) return check_part(section, dataset, entry, entry.part);
  for (const std::string& column : entry.columns) check_part(section, dataset, entry, column);
}

batch::Field planned_field(config::ConfigSection& section, const sources::SampleIndex& dataset,
                           const FieldEntry& entry, Shape& row) {
  const batch::BatchSpec all = stored_fields(dataset);
  const batch::Field* const part = all.find(entry.part);
  // The part, where it holds the numbers themselves.
  const batch::Field* const plain = entry.stored.form == StoredForm::plain &&
                                            entry.kind != FieldKind::bytes &&
                                            entry.kind != FieldKind::sound
                                        ? part
                                        : nullptr;
  batch::Field made{entry.name, batch::ElementType::u8, {}, true};
  if (entry.kind == FieldKind::mask) {
    made.ragged = false;  // its shape is that of the picture, once that is known
    return made;
  }
  if (follows_picture(entry.kind)) {
    made.type = batch::ElementType::f32;
    made.ragged = entry.ragged.value_or(true);
    row = place_row(section, entry);
  }
  if (entry.kind == FieldKind::numbers) {
    if (!entry.type && !plain)
      section.refuse("type", fmt::format("field '{}' needs a type", entry.name),
                     "write one, as i64 or f32");
    const bool as_stored = plain && !entry.shape && !entry.ragged;
    made.type = entry.type ? *entry.type : plain->type;
    made.ragged = as_stored && plain->ragged ? true : entry.ragged.value_or(!entry.rows_of.empty());
    row = entry.shape                                 ? *entry.shape
          : as_stored && made.ragged == plain->ragged ? row_of(*plain)
                                                      : Shape{};
  }
  if (plain && !converts(plain->type, made.type))
    section.refuse(
        "type",
        fmt::format("field '{}' is {}, and '{}' holds {}", entry.name,
                    batch::element_name(made.type), entry.part, batch::element_name(plain->type)),
        fmt::format("write {}", batch::element_name(plain->type)));
  made.shape = row;
  if (made.ragged) made.shape.insert(made.shape.begin(), rows_most(dataset, entry, part, row));
  return made;
}

}  // namespace batchflow::prepare
