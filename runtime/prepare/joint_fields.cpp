#include "runtime/prepare/joint_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/prepare/mask.h"
#include "runtime/prepare/step_readers.h"

namespace batchflow::prepare {
namespace {

constexpr std::string_view kForms[] = {"plain", "npy", "json"};
constexpr std::string_view kFormats[] = {"xyxy", "xywh", "cxcywh"};
constexpr std::uint64_t kRowsMost = std::uint64_t{1} << 32;

// The ending of a member says what it is, as the endings of files do.
StoredForm form_of(std::string_view part) {
  const std::string_view ending = part.substr(part.rfind('.') + 1);
  return ending == "npy"    ? StoredForm::npy
         : ending == "json" ? StoredForm::json
                            : StoredForm::plain;
}

// Refuses a parameter that means nothing to this kind of field.
void only_for(config::ConfigSection& section, const FieldEntry& field, std::string_view key,
              std::initializer_list<FieldKind> kinds) {
  if (!section.has(key) || std::find(kinds.begin(), kinds.end(), field.kind) != kinds.end()) return;
  std::vector<std::string_view> names;
  for (const FieldKind kind : kinds) names.push_back(kind_name(kind));
  section.refuse(key,
                 fmt::format("field '{}' is of kind {}, which has no '{}'", field.name,
                             kind_name(field.kind), key),
                 fmt::format("leave it out; it is for {}", fmt::join(names, ", ")));
}

// The parts that it is read from.
void read_from(config::ConfigSection& section, FieldEntry& field) {
  field.part = field.kind == FieldKind::picture ? "" : field.name;
  if (!section.has("from")) return;
  std::vector<std::string> parts = section.texts("from");
  const std::size_t wanted = field.kind == FieldKind::boxes    ? 4
                             : field.kind == FieldKind::points ? 2
                                                               : 1;
  if (parts.empty() || (parts.size() != 1 && parts.size() != wanted) ||
      std::any_of(parts.begin(), parts.end(), [](const auto& part) { return part.empty(); }))
    section.refuse("from",
                   fmt::format("{} parts for field '{}', which is of kind {}", parts.size(),
                               field.name, kind_name(field.kind)),
                   wanted == 1
                       ? "write one"
                       : fmt::format("write one, or {}: one for each number of a row", wanted));
  field.part = parts.front();
  if (parts.size() > 1) field.columns = std::move(parts);
}

void read_stored(config::ConfigSection& section, FieldEntry& field) {
  only_for(section, field, "stored",
           {FieldKind::boxes, FieldKind::points, FieldKind::numbers, FieldKind::bytes});
  const bool is_bytes = field.kind == FieldKind::bytes;
  const bool may = field.kind != FieldKind::picture && field.kind != FieldKind::mask &&
                   field.kind != FieldKind::sound;
  const StoredForm usual = may && !is_bytes ? form_of(field.part) : StoredForm::plain;
  field.stored.form = section.choice("stored", {std::begin(kForms), std::end(kForms)},
                                     is_bytes && section.has("key") ? StoredForm::json : usual);
  if (is_bytes && field.stored.form == StoredForm::npy)
    section.refuse("stored", "an array of NumPy holds numbers", "write kind: numbers");
  if (field.stored.form == StoredForm::json && !field.columns.empty())
    section.refuse("from", "JSON is one part", "write that one, and key:");
  field.stored.key = section.text("key", "");
  if (!field.stored.key.empty() && field.stored.form != StoredForm::json)
    section.refuse("key", fmt::format("'{}' is not read as JSON", field.part),
                   "leave it out, or write stored: json");
}

void read_rows(config::ConfigSection& section, FieldEntry& field) {
  using enum FieldKind;
  only_for(section, field, "type", {numbers});
  only_for(section, field, "shape", {points, numbers});
  only_for(section, field, "ragged", {points, numbers});
  only_for(section, field, "most", {boxes, points, numbers, bytes});
  only_for(section, field, "optional", {boxes, points, numbers, bytes});
  only_for(section, field, "rows_of", {numbers, points});
  if (section.has("type")) {
    std::vector<std::string_view> names;
    for (std::size_t i = 0; i < batch::kElementTypes; ++i)
      names.push_back(batch::element_name(static_cast<batch::ElementType>(i)));
    field.type = section.choice("type", names, batch::ElementType::i64);
  }
  if (section.has("shape"))
    field.shape = whole_numbers(section, "shape", std::uint64_t{1} << 30,
                                "write the shape of a row, as [17, 3]");
  if (section.has("ragged")) field.ragged = section.flag("ragged", true);
  field.rows_most = static_cast<std::uint64_t>(
      section.integer("most", 0, 1, static_cast<std::int64_t>(kRowsMost)));
  field.optional = section.flag("optional", false);
  field.rows_of = section.text("rows_of", "");
}

void read_mask_and_boxes(config::ConfigSection& section, FieldEntry& field) {
  only_for(section, field, "fill", {FieldKind::mask});
  only_for(section, field, "format", {FieldKind::boxes});
  only_for(section, field, "shares", {FieldKind::boxes, FieldKind::points});
  only_for(section, field, "sanitise", {FieldKind::boxes});
  field.fill = static_cast<std::uint32_t>(section.integer("fill", 0, 0, kMaskNumberMost));
  field.format =
      section.choice("format", {std::begin(kFormats), std::end(kFormats)}, BoxFormat::corners);
  field.is_share = section.flag("shares", false);
  section.section("sanitise", [&](config::ConfigSection& least) {
    field.least = LeastBox{least.number("side", 1, 0, 1e9), least.number("area", 1, 0, 1e18)};
  });
}

std::string text_of(const FieldEntry& field) {
  std::string text = fmt::format("field {} {}/1", field.name, kind_name(field.kind));
  const auto add = [&text](std::string_view key, const auto& value) {
    text += fmt::format(" {}={}", key, value);
  };
  if (!field.columns.empty())
    add("from", fmt::format("{}", fmt::join(field.columns, ",")));
  else if (!field.part.empty())
    add("from", field.part);
  if (field.stored.form != StoredForm::plain)
    add("stored", kForms[static_cast<std::size_t>(field.stored.form)]);
  if (!field.stored.key.empty()) add("key", field.stored.key);
  if (field.type) add("type", batch::element_name(*field.type));
  if (field.shape) add("shape", fmt::format("{}", fmt::join(*field.shape, "x")));
  if (field.ragged) add("ragged", *field.ragged);
  if (field.rows_most > 0) add("most", field.rows_most);
  if (field.optional) add("optional", true);
  if (!field.rows_of.empty()) add("rows_of", field.rows_of);
  if (field.kind == FieldKind::mask) add("fill", field.fill);
  if (field.kind == FieldKind::boxes)
    add("format", kFormats[static_cast<std::size_t>(field.format)]);
  if (field.is_share) add("shares", true);
  if (field.least) add("sanitise", fmt::format("{},{}", field.least->side, field.least->area));
  return text;
}

}  // namespace

FieldEntry read_field(config::ConfigSection& section) {
  FieldEntry field;
  // At first: what is missed next may be what a wrong key says.
  section.refuse_others({"field", "kind", "from", "steps", "stored", "key", "type", "shape",
                         "ragged", "most", "optional", "rows_of", "fill", "format", "shares",
                         "sanitise"});
  section.require("field", "what the batch calls it");
  field.name = section.filled_text("field", "", "write what the batch calls it");
  section.require("kind", fmt::format("write one of {}", fmt::join(kFieldKindNames, ", ")));
  field.kind = section.choice("kind", {std::begin(kFieldKindNames), std::end(kFieldKindNames)},
                              FieldKind::picture);
  read_from(section, field);
  read_stored(section, field);
  read_rows(section, field);
  read_mask_and_boxes(section, field);
  field.text = text_of(field);
  return field;
}

ViewEntry read_view(config::ConfigSection& section) {
  section.refuse_others({"field", "count", "steps"});
  section.require("field", "what the batch calls these views");
  section.require("count", "how many views it has, as 2");
  section.require("steps", "what is done to each view");
  ViewEntry view;
  view.name = section.filled_text("field", "", "write what the batch calls these views");
  view.count = static_cast<std::uint32_t>(section.integer("count", 1, 1, 1 << 16));
  return view;
}

bool LeastBox::keeps(std::span<const float, 4> box) const {
  const float width = box[2] - box[0], height = box[3] - box[1];
  return width >= static_cast<float>(side) && height >= static_cast<float>(side) &&
         width * height >= static_cast<float>(area);
}

}  // namespace batchflow::prepare
