#include "runtime/prepare/pipeline_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "runtime/prepare/sound_steps.h"
#include "runtime/sources/record.h"

namespace batchflow::prepare {
namespace {

// First guesses of the time of libjpeg-turbo and the resampler on one core; the engine corrects
// them.
constexpr double kDecodeNsPerByte = 2.2;
constexpr double kAugmentNsPerByte = 2.0;
constexpr Duration kPluginCost = std::chrono::microseconds(100);
// How much larger a JPEG of photographic quality becomes, if nothing is known of its size.
constexpr Bytes kGrowth = 5;
// Beside that, of video.
constexpr Bytes kGrowthOfVideo = 16;
constexpr std::uint32_t kViewsMost = 64;

Duration cost(Bytes bytes, double ns_per_byte) {
  return Duration(static_cast<std::int64_t>(static_cast<double>(bytes) * ns_per_byte));
}

// Sizes of pictures are not known before they are decoded.
Bytes decoded_guess(const sources::SampleIndex& dataset) {
  return dataset.sums().total / std::max<std::uint64_t>(1, dataset.samples()) * kGrowth;
}

}  // namespace

void check_head(config::ConfigSection& section) {
  if (section.has("kind") && section.text("kind", "") != "pipeline")
    section.refuse("kind", "this is no pipeline", "write kind: pipeline");
  section.require("name", "what jobs call it");
  section.require("steps", "a list of steps; [] gives samples as stored");
}

std::unique_ptr<Pipeline> PipelineCompiler::run() {
  check_head(draft_.section);
  draft_.parts.name = draft_.section.text("name", "");
  draft_.parts.kind = draft_.dataset.kind();
  draft_.parts.stored = draft_.dataset.stored_fields();
  draft_.parts.part = draft_.section.text("field", "");
  if (!draft_.parts.part.empty()) draft_.add_text("field " + draft_.parts.part);
  if (draft_.section.has("views")) name_views();
  if (draft_.section.has("fields")) fields_.add(all_steps_);
  if (draft_.section.has("form")) read_form();
  draft_.section.sections("steps", [this](config::ConfigSection& step) { add(step); });
  if (!draft_.parts.views.empty())
    add_views();
  else if (draft_.parts.picture)
    picture_.end();
  else if (!draft_.has_fields)
    plan_numbers(draft_);
  check_sounds(draft_);
  if (draft_.has_fields) fields_.end(picture_.extent());
  if (draft_.parts.afterwards) plugins_.end();
  if (draft_.parts.spec.find(sources::kLabelField) == nullptr && draft_.has_labels) {
    draft_.parts.label_field = draft_.parts.spec.fields.size();
    draft_.parts.spec.fields.push_back(
        {std::string(sources::kLabelField), batch::ElementType::i64, {}, false});
  }
  if (const std::string problem = draft_.parts.spec.problem(); !problem.empty())
    draft_.section.refuse("steps", problem,
                          "give the fields other names, or make the samples smaller");
  end_info();
  return std::make_unique<CompiledPipeline>(std::move(draft_.parts));
}

void PipelineCompiler::read_form() {
  until_random_ = true;
  if (draft_.section.text("form", "") != "decoded")
    draft_.section.refuse("form", "a pipeline is prepared, or cut where the decoded form is",
                          "write form: decoded, or leave it out");
  if (draft_.section.has("views") || draft_.section.has("fields"))
    draft_.section.refuse("form", "samples with fields or views have no decoded form of their own",
                          "ask for the prepared form");
}

void PipelineCompiler::add(config::ConfigSection& section) {
  check_count(section, all_steps_);
  if (is_plugin(section) && until_random_)
    section.refuse(plugin_key(section), "a step of a user makes no form that others know",
                   "ask for the prepared form");
  if (is_plugin(section)) return add(section, plugins_.open(section, steps_, last_stage_));
  const PipelineStep step = read_step(section);
  if (until_random_ && (step.random || is_cut_)) {
    is_cut_ = true;
    return;
  }
  check_count(section, all_steps_ + count_steps(step.kind) - 1);
  add(section, step);
}

void PipelineCompiler::add(config::ConfigSection& section, const PipelineStep& step) {
  check_stage(section, step);
  if (!draft_.parts.views.empty()) check_beside_views(section, step);
  const std::uint32_t index = steps_++;
  all_steps_ += count_steps(step.kind);
  last_ = step.name;
  last_stage_ = step.stage;
  draft_.add_text(step.text);
  draft_.parts.step_names.emplace_back(step.name);
  if (step.random) draft_.parts.info.has_random = true;
  take(section, step, index);
  if (step.stage <= StepStage::picture && !draft_.parts.info.has_random && !picture_.is_view() &&
      !draft_.parts.clip) {
    draft_.parts.info.prefix_hash = draft_.parts.info.hash;
    picture_.keep();
  }
  if (step.stage == StepStage::plugin && !draft_.parts.picture && !draft_.parts.info.has_random) {
    draft_.parts.info.prefix_hash = draft_.parts.info.hash;
    plugins_.keep();
  }
}

void PipelineCompiler::check_stage(config::ConfigSection& section, const PipelineStep& step) const {
  const bool of_pictures = step.stage == StepStage::picture || step.stage == StepStage::normalise ||
                           step.stage == StepStage::erase || step.stage == StepStage::layout;
  if (of_pictures && !draft_.parts.picture)
    section.refuse("step", fmt::format("'{}' works on pictures, and there is none yet", step.name),
                   "write {step: decode} before it");
  if (!of_pictures && step.stage != StepStage::cast && step.stage != StepStage::decode &&
      step.stage != StepStage::plugin && draft_.parts.picture)
    section.refuse("step", fmt::format("'{}' does not work on pictures", step.name),
                   "leave it or {step: decode} out");
  if (steps_ == 0) return;
  if (step.stage == last_stage_ && step.stage != StepStage::picture &&
      step.stage != StepStage::plugin)
    section.refuse("step", fmt::format("'{}' stands twice", step.name), "leave one out");
  if (step.stage < last_stage_)
    section.refuse(
        "step", fmt::format("'{}' cannot come after '{}'", step.name, last_),
        "write it before; the order is decode or clip, what changes pictures, normalise, "
        "random_erasing, decode_sound, cut_sound, mel_spectrogram, tokens, cast, "
        "layout, reshape, plugins");
}

void PipelineCompiler::take(config::ConfigSection& section, const PipelineStep& step,
                            std::uint32_t index) {
  const bool for_numbers = step.stage == StepStage::tokens || step.stage == StepStage::reshape ||
                           step.stage == StepStage::sound || step.stage == StepStage::cut_sound ||
                           step.stage == StepStage::mel ||
                           (step.stage == StepStage::cast && !draft_.parts.picture);
  if (for_numbers) return take_numbers(section, step, index);
  std::visit(
      [&](const auto& kind) {
        if constexpr (std::is_same_v<std::decay_t<decltype(kind)>, PictureByPlugin>) {
          plugins_.take(section, step, index, kind);
        } else {
          picture_.take(section, step, index, kind);
        }
      },
      step.kind);
}

void PipelineCompiler::take_numbers(config::ConfigSection& section, const PipelineStep& step,
                                    std::uint32_t index) {
  if (draft_.has_fields && step.stage == StepStage::sound)
    section.refuse("step", "sounds beside other fields have steps of their own",
                   "write it into the steps of a field of kind: sound");
  take_number_step(section, draft_, worked_on(draft_, section), step, index);
}

void PipelineCompiler::name_views() {
  std::uint32_t all = 0;
  draft_.section.sections("views", [&](config::ConfigSection& view) {
    const ViewEntry entry = read_view(view);
    if (draft_.parts.spec.find(entry.name))
      view.refuse("field", fmt::format("two fields are called '{}'", entry.name),
                  "write another name");
    ViewPlan plan;
    plan.first = all;
    plan.count = entry.count;
    plan.plan.field = draft_.parts.spec.fields.size();
    all += entry.count;
    if (all > kViewsMost)
      view.refuse("count", fmt::format("{} views of a picture", all),
                  fmt::format("write at most {} in all", kViewsMost));
    draft_.parts.views.push_back(plan);
    draft_.parts.spec.fields.push_back({entry.name, batch::ElementType::u8, {}, false});
  });
  if (draft_.parts.views.empty())
    draft_.section.refuse("views", "it is empty",
                          "write [{field: global, count: 2, steps: [...]}]");
}

void PipelineCompiler::add_views() {
  PipelineParts& parts = draft_.parts;
  if (!parts.picture)
    draft_.section.refuse("views", "they are of a picture, and none is decoded",
                          "write {step: decode} first");
  const PicturePlan before = *parts.picture;
  const std::optional<Extent2> extent = picture_.extent();
  parts.views_draw = steps_;
  std::size_t at = 0;
  draft_.section.sections("views", [&](config::ConfigSection& section) {
    ViewPlan& view = parts.views[at++];
    batch::Field& field = parts.spec.fields[view.plan.field];
    read_view(section);
    draft_.add_text(fmt::format("view {}/1 count={}", field.name, view.count));
    picture_.begin_view(view.plan.field, extent);
    steps_ = 0;
    last_stage_ = StepStage::picture;
    section.sections("steps", [this](config::ConfigSection& step) { add(step); });
    picture_.end();
    view.plan = std::move(*parts.picture);
    view.bytes = field.row_bytes();
    field.shape.insert(field.shape.begin(), view.count);
  });
  picture_.end_views();
  parts.picture = before;
}

void PipelineCompiler::check_beside_views(config::ConfigSection& section,
                                          const PipelineStep& step) const {
  if (picture_.is_view() && step.stage == StepStage::decode)
    section.refuse("step", "'decode' stands in a view", "write it into the steps of the pipeline");
  if (!picture_.is_view() && step.stage > StepStage::picture)
    section.refuse(section.has("step") ? "step" : plugin_key(section),
                   fmt::format("'{}' stands before the views", step.name),
                   "write it into the steps of each view");
}

void PipelineCompiler::end_info() {
  engine::PipelineInfo& info = draft_.parts.info;
  for (const batch::Field& field : draft_.parts.spec.fields)
    info.prepared_bytes += field.row_bytes() * field.rows_most();
  if (draft_.parts.clip) {
    info.decoded_bytes = decoded_guess(draft_.dataset) * kGrowthOfVideo;
    info.decode_cost = cost(info.decoded_bytes, kDecodeNsPerByte);
  } else if (draft_.parts.picture) {
    info.decoded_bytes = picture_.kept_extent() ? PictureBuffer::bytes(*picture_.kept_extent())
                                                : decoded_guess(draft_.dataset);
    info.decode_cost = cost(decoded_guess(draft_.dataset), kDecodeNsPerByte);
    if (!draft_.parts.joint.empty()) info.decoded_bytes += decoded_guess(draft_.dataset) / kGrowth;
  } else if (draft_.parts.afterwards && draft_.parts.afterwards->kept > 0) {
    const Afterwards& made = *draft_.parts.afterwards;
    info.decoded_bytes = made.steps[made.kept - 1].plugin->declared().output.row_bytes();
    info.decode_cost = static_cast<std::int64_t>(made.kept) * kPluginCost;
  }
  info.augment_cost = cost(info.prepared_bytes, kAugmentNsPerByte);
}

}  // namespace batchflow::prepare
