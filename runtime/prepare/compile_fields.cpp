// The fields and views of a pipeline.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/prepare/mask.h"
#include "runtime/prepare/pipeline_compiler.h"
#include "runtime/prepare/plan_fields.h"

namespace batchflow::prepare {
namespace {

constexpr std::uint32_t kViewsMost = 64;
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

void PipelineCompiler::add_fields() {
  has_fields_ = true;
  if (!out_->part_.empty())
    section_.refuse("field", "it stands beside 'fields'", "write it as an entry of fields");
  section_.sections("fields", [this](config::ConfigSection& field) { add_field(field); });
  if (out_->spec_.fields.empty() && !names_picture_)
    section_.refuse("fields", "it is empty",
                    "write [{field: image, kind: picture}], or leave it out");
  for (JointField& field : out_->joint_) find_rows_of(field);
}

void PipelineCompiler::add_field(config::ConfigSection& section) {
  JointField field;
  field.entry = read_field(section);
  const FieldEntry& entry = field.entry;
  if (out_->spec_.find(entry.name))
    section.refuse("field", fmt::format("two fields are called '{}'", entry.name),
                   "write another name");
  add_text(entry.text);
  check_parts(section, dataset_, entry);
  if (entry.kind == FieldKind::picture) return add_picture_field(section, entry);
  field.numbers.field = out_->spec_.fields.size();
  field.numbers.stored = planned_field(section, dataset_, entry, field.row);
  out_->spec_.fields.push_back(field.numbers.stored);
  if (entry.optional && !field.numbers.stored.ragged)
    section.refuse("optional",
                   fmt::format("field '{}' has as many rows in each sample", entry.name),
                   "leave it out, or write ragged: true");
  out_->joint_.push_back(std::move(field));
  own_ = &out_->joint_.back();
  own_stage_ = StepStage::decode;
  own_steps_ = 0;
  section.sections("steps", [this](config::ConfigSection& step) { add_own(step); });
  own_ = nullptr;
  const JointField& made = out_->joint_.back();
  if (made.entry.kind == FieldKind::sound && !made.numbers.sound)
    section.refuse("steps",
                   fmt::format("field '{}' is a sound, and is not decoded", made.entry.name),
                   "write steps: [{step: decode_sound, rate: 16000}]");
  check_fill(section, made.entry, out_->spec_.fields.back().type);
}

void PipelineCompiler::add_picture_field(config::ConfigSection& section, const FieldEntry& entry) {
  if (names_picture_)
    section.refuse("kind", fmt::format("field '{}' is a second picture", entry.name),
                   "write one picture, which the steps are for");
  if (section.has("steps"))
    section.refuse("steps", fmt::format("field '{}' is the picture", entry.name),
                   "write its steps into the steps of the pipeline");
  out_->part_ = entry.part;
  names_picture_ = true;
  if (!out_->views_.empty()) return;  // they stand in its place
  picture_field_ = out_->spec_.fields.size();
  out_->spec_.fields.push_back({entry.name, batch::ElementType::u8, {}, false});
}

void PipelineCompiler::find_rows_of(JointField& field) {
  const std::string& boxes = field.entry.rows_of;
  if (boxes.empty()) return;
  const std::vector<JointField>& all = out_->joint_;
  const auto found = std::find_if(all.begin(), all.end(), [&](const JointField& other) {
    return other.entry.name == boxes && other.entry.kind == FieldKind::boxes;
  });
  if (found == all.end() || !field.numbers.stored.ragged)
    section_.refuse(
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
  batch::Field& made = out_->spec_.fields[field.numbers.field];
  if (made.ragged) made.shape.front() = most;
}

void PipelineCompiler::add_own(config::ConfigSection& section) {
  const std::string_view kind = kind_name(own_->entry.kind);
  const bool is_plain =
      own_->entry.kind == FieldKind::numbers || own_->entry.kind == FieldKind::bytes;
  const bool is_sound = own_->entry.kind == FieldKind::sound;
  const std::string_view may =
      is_plain   ? "tokens, cast and reshape"
      : is_sound ? "decode_sound, cut_sound or random_cut_sound, mel_spectrogram and cast"
                 : "cast";
  check_count(section, all_steps_);
  if (is_plugin(section))
    section.refuse(section.has("plugin") ? "plugin" : "python",
                   fmt::format("field '{}' is of kind {}", own_->entry.name, kind),
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
                               own_->entry.name, kind),
                   fmt::format("write {} there; steps that change the picture stand in the steps "
                               "of the pipeline",
                               may));
  if (step.stage <= own_stage_)
    section.refuse("step", fmt::format("'{}' stands twice, or too late", step.name),
                   is_sound ? fmt::format("write {}, each once", may)
                            : "write tokens, cast, reshape, each once");
  own_stage_ = step.stage;
  ++all_steps_;
  add_text("of field " + step.text);
  if (own_->entry.kind == FieldKind::mask) {
    const batch::ElementType to = std::get<Cast>(step.kind).type;
    if (!is_mask_type(to))
      section.refuse("to",
                     fmt::format("field '{}' is a mask, which is never {}", own_->entry.name,
                                 batch::element_name(to)),
                     "write u8, i8, u16, i16, i32, i64 or f32");
    out_->spec_.fields[own_->numbers.field].type = to;
    return;
  }
  own_random_ = own_random_ || step.random;
  // The same place in the steps of another field draws the same.
  take_kind(section, step, kOwnDraws + own_steps_++);
}

void PipelineCompiler::end_fields() {
  const bool follows = std::any_of(out_->joint_.begin(), out_->joint_.end(), [](const auto& field) {
    return follows_picture(field.entry.kind);
  });
  if (picture_field_ && !out_->picture_)
    section_.refuse("steps",
                    fmt::format("field '{}' is a picture, and none is decoded",
                                out_->spec_.fields[*picture_field_].name),
                    "write {step: decode} first");
  if (follows && !out_->views_.empty())
    section_.refuse("views", "masks, boxes and points go along with one picture, not with views",
                    "leave these fields out");
  if (follows && !picture_field_)
    section_.refuse("fields", "masks, boxes and points go along with a picture, and there is none",
                    "write {field: image, kind: picture}");
  for (const JointField& field : out_->joint_)
    if (field.entry.kind == FieldKind::mask)
      out_->spec_.fields[field.numbers.field].shape = {static_cast<std::uint64_t>(extent_->height),
                                                       static_cast<std::uint64_t>(extent_->width)};
}

void PipelineCompiler::name_views() {
  section_.sections("views", [this](config::ConfigSection& view) {
    const ViewEntry entry = read_view(view);
    if (out_->spec_.find(entry.name))
      view.refuse("field", fmt::format("two fields are called '{}'", entry.name),
                  "write another name");
    ViewPlan plan;
    plan.first = all_views_;
    plan.count = entry.count;
    plan.plan.field = out_->spec_.fields.size();
    all_views_ += entry.count;
    if (all_views_ > kViewsMost)
      view.refuse("count", fmt::format("{} views of a picture", all_views_),
                  fmt::format("write at most {} in all", kViewsMost));
    out_->views_.push_back(plan);
    out_->spec_.fields.push_back({entry.name, batch::ElementType::u8, {}, false});
  });
  if (out_->views_.empty())
    section_.refuse("views", "it is empty", "write [{field: global, count: 2, steps: [...]}]");
}

void PipelineCompiler::add_views() {
  if (!out_->picture_)
    section_.refuse("views", "they are of a picture, and none is decoded",
                    "write {step: decode} first");
  const PicturePlan before = *out_->picture_;
  const std::optional<Extent2> extent = extent_;
  out_->views_draw_ = steps_;
  std::size_t at = 0;
  section_.sections("views", [&](config::ConfigSection& section) {
    ViewPlan& view = out_->views_[at++];
    batch::Field& field = out_->spec_.fields[view.plan.field];
    read_view(section);
    add_text(fmt::format("view {}/1 count={}", field.name, view.count));
    out_->picture_.emplace().limits = before.limits;
    view_field_ = view.plan.field;
    extent_ = extent;
    normalisation_.reset();
    cast_.reset();
    planes_ = false;
    steps_ = 0;
    last_stage_ = StepStage::picture;
    section.sections("steps", [this](config::ConfigSection& step) { add(step); });
    end_picture();
    view.plan = std::move(*out_->picture_);
    view.bytes = field.row_bytes();
    field.shape.insert(field.shape.begin(), view.count);
  });
  view_field_.reset();
  out_->picture_ = before;
}

void PipelineCompiler::check_beside_views(config::ConfigSection& section,
                                          const PipelineStep& step) const {
  if (view_field_ && step.stage == StepStage::decode)
    section.refuse("step", "'decode' stands in a view", "write it into the steps of the pipeline");
  if (!view_field_ && step.stage > StepStage::picture)
    section.refuse(section.has("step")     ? "step"
                   : section.has("plugin") ? "plugin"
                                           : "python",
                   fmt::format("'{}' stands before the views", step.name),
                   "write it into the steps of each view");
}

}  // namespace batchflow::prepare
