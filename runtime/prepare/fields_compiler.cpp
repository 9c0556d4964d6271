#include "runtime/prepare/fields_compiler.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/prepare/mask.h"
#include "runtime/prepare/plan_fields.h"

namespace batchflow::prepare {
namespace {

// The index of the first step of a field: behind all that steps of the pipeline can have.
constexpr std::uint32_t kOwnDraws = 64;

void check_fill(config::ConfigSection& section, const FieldEntry& entry, batch::ElementType type) {
  if (entry.kind != FieldKind::mask || entry.fill <= mask_number_most(type)) return;
  section.refuse("fill",
                 fmt::format("{} is no {}, as field '{}' is", entry.fill, batch::element_name(type),
                             entry.name),
                 "write a smaller number, or steps: [{step: cast, to: i32}]");
}

}  // namespace

void FieldsCompiler::add(std::size_t& steps) {
  draft_.has_fields = true;
  if (!draft_.parts.part.empty())
    draft_.section.refuse("field", "it stands beside 'fields'", "write it as an entry of fields");
  draft_.section.sections("fields", [&](config::ConfigSection& field) { add_field(field, steps); });
  if (draft_.parts.spec.fields.empty() && !draft_.names_picture)
    draft_.section.refuse("fields", "it is empty",
                          "write [{field: image, kind: picture}], or leave it out");
  for (JointField& field : draft_.parts.joint) find_rows_of(field);
}

void FieldsCompiler::add_field(config::ConfigSection& section, std::size_t& steps) {
  JointField field;
  field.entry = read_field(section);
  const FieldEntry& entry = field.entry;
  if (draft_.parts.spec.find(entry.name))
    section.refuse("field", fmt::format("two fields are called '{}'", entry.name),
                   "write another name");
  draft_.add_text(entry.text);
  check_parts(section, draft_.dataset, entry);
  if (entry.kind == FieldKind::picture) return add_picture(section, entry);
  field.numbers.field = draft_.parts.spec.fields.size();
  field.numbers.stored = planned_field(section, draft_.dataset, entry, field.row);
  draft_.parts.spec.fields.push_back(field.numbers.stored);
  if (entry.optional && !field.numbers.stored.ragged)
    section.refuse("optional",
                   fmt::format("field '{}' has as many rows in each sample", entry.name),
                   "leave it out, or write ragged: true");
  draft_.parts.joint.push_back(std::move(field));
  const JointField& made = draft_.parts.joint.back();
  Own own{draft_.parts.joint.back()};
  section.sections("steps", [&](config::ConfigSection& step) {
    check_count(step, steps);
    add_step(step, own);
    ++steps;
  });
  if (made.entry.kind == FieldKind::sound && !made.numbers.sound)
    section.refuse("steps",
                   fmt::format("field '{}' is a sound, and is not decoded", made.entry.name),
                   "write steps: [{step: decode_sound, rate: 16000}]");
  check_fill(section, made.entry, draft_.parts.spec.fields.back().type);
}

void FieldsCompiler::add_picture(config::ConfigSection& section, const FieldEntry& entry) {
  if (draft_.names_picture)
    section.refuse("kind", fmt::format("field '{}' is a second picture", entry.name),
                   "write one picture, which the steps are for");
  if (section.has("steps"))
    section.refuse("steps", fmt::format("field '{}' is the picture", entry.name),
                   "write its steps into the steps of the pipeline");
  draft_.parts.part = entry.part;
  draft_.names_picture = true;
  if (!draft_.parts.views.empty()) return;  // they stand in its place
  draft_.picture_field = draft_.parts.spec.fields.size();
  draft_.parts.spec.fields.push_back({entry.name, batch::ElementType::u8, {}, false});
}

void FieldsCompiler::find_rows_of(JointField& field) {
  const std::string& boxes = field.entry.rows_of;
  if (boxes.empty()) return;
  const std::vector<JointField>& all = draft_.parts.joint;
  const auto found = std::find_if(all.begin(), all.end(), [&](const JointField& other) {
    return other.entry.name == boxes && other.entry.kind == FieldKind::boxes;
  });
  if (found == all.end() || !field.numbers.stored.ragged)
    draft_.section.refuse(
        "fields",
        found == all.end()
            ? fmt::format("the rows of field '{}' belong to '{}', which is no field of boxes",
                          field.entry.name, boxes)
            : fmt::format("field '{}' has one row, and '{}' any number of them", field.entry.name,
                          boxes),
        found == all.end() ? "write rows_of: and the name of one" : "write ragged: true");
  field.rows_of = static_cast<std::size_t>(found - all.begin());
  // It has no more rows than there are boxes.
  std::uint64_t& most = field.numbers.stored.shape.front();
  most = std::min(most, found->numbers.stored.shape.front());
  batch::Field& made = draft_.parts.spec.fields[field.numbers.field];
  if (made.ragged) made.shape.front() = most;
}

void FieldsCompiler::add_step(config::ConfigSection& section, Own& own) {
  const std::string_view kind = kind_name(own.field.entry.kind);
  const bool is_plain =
      own.field.entry.kind == FieldKind::numbers || own.field.entry.kind == FieldKind::bytes;
  const bool is_sound = own.field.entry.kind == FieldKind::sound;
  const std::string_view may =
      is_plain   ? "tokens, cast and reshape"
      : is_sound ? "decode_sound, cut_sound or random_cut_sound, mel_spectrogram and cast"
                 : "cast";
  if (is_plugin(section))
    section.refuse(plugin_key(section),
                   fmt::format("field '{}' is of kind {}", own.field.entry.name, kind),
                   fmt::format("write {} there", may));
  const PipelineStep step = read_step(section);
  const bool fits =
      step.stage == StepStage::cast ||
      (is_plain && (step.stage == StepStage::tokens || step.stage == StepStage::reshape)) ||
      (is_sound && (step.stage == StepStage::sound || step.stage == StepStage::cut_sound ||
                    step.stage == StepStage::mel));
  if (!fits)
    section.refuse("step",
                   fmt::format("'{}' does not work on field '{}', which is of kind {}", step.name,
                               own.field.entry.name, kind),
                   fmt::format("write {} there; steps that change the picture stand in the steps "
                               "of the pipeline",
                               may));
  if (step.stage <= own.stage)
    section.refuse("step", fmt::format("'{}' stands twice, or too late", step.name),
                   is_sound ? fmt::format("write {}, each once", may)
                            : "write tokens, cast, reshape, each once");
  own.stage = step.stage;
  draft_.add_text("of field " + step.text);
  if (own.field.entry.kind == FieldKind::mask) {
    const batch::ElementType to = std::get<Cast>(step.kind).type;
    if (!is_mask_type(to))
      section.refuse("to",
                     fmt::format("field '{}' is a mask, which is never {}", own.field.entry.name,
                                 batch::element_name(to)),
                     "write u8, i8, u16, i16, i32, i64 or f32");
    draft_.parts.spec.fields[own.field.numbers.field].type = to;
    return;
  }
  draws_ = draws_ || step.random;
  // The same place in the steps of another field draws the same.
  batch::Field& made = draft_.parts.spec.fields[own.field.numbers.field];
  take_number_step(section, draft_, {own.field.numbers, made, true}, step, kOwnDraws + own.steps++);
}

void FieldsCompiler::end(const std::optional<Extent2>& extent) {
  // What is kept of the picture has none of their steps behind it.
  if (draws_) draft_.parts.info.has_random = true;
  const bool follows =
      std::any_of(draft_.parts.joint.begin(), draft_.parts.joint.end(),
                  [](const auto& field) { return follows_picture(field.entry.kind); });
  if (draft_.picture_field && !draft_.parts.picture)
    draft_.section.refuse("steps",
                          fmt::format("field '{}' is a picture, and none is decoded",
                                      draft_.parts.spec.fields[*draft_.picture_field].name),
                          "write {step: decode} first");
  if (follows && !draft_.parts.views.empty())
    draft_.section.refuse("views",
                          "masks, boxes and points go along with one picture, not with views",
                          "leave these fields out");
  if (follows && !draft_.picture_field)
    draft_.section.refuse("fields",
                          "masks, boxes and points go along with a picture, and there is none",
                          "write {field: image, kind: picture}");
  for (const JointField& field : draft_.parts.joint)
    if (field.entry.kind == FieldKind::mask)
      draft_.parts.spec.fields[field.numbers.field].shape = {
          static_cast<std::uint64_t>(extent->height), static_cast<std::uint64_t>(extent->width)};
}

}  // namespace batchflow::prepare
