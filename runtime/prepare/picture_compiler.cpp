#include "runtime/prepare/picture_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/order/keys.h"
#include "runtime/prepare/picture_kinds.h"
#include "runtime/sources/file_kinds.h"
#include "runtime/video/group_decoder.h"

namespace batchflow::prepare {

void PictureCompiler::keep() {
  draft_.parts.picture->kept = draft_.parts.picture->steps.size();
  kept_extent_ = extent_;
}

void PictureCompiler::take(config::ConfigSection& section, const PipelineStep&, std::uint32_t,
                           const Decode& step) {
  if (draft_.dataset.kind() == sources::RecordKind::rows ||
      draft_.dataset.kind() == sources::RecordKind::sequence)
    section.refuse("step", fmt::format("dataset '{}' holds numbers", draft_.dataset.name()),
                   "leave decode out");
  if (sources::none_can_be_decoded(draft_.dataset))
    section.refuse(
        "step",
        fmt::format("'decode' is for pictures in {}, and dataset '{}' holds {}", decoded_kinds(),
                    draft_.dataset.name(), sources::endings_text(draft_.dataset, true)),
        "convert them, or name a pipeline without decode, as 'bytes'");
  if (section.has("pixels_most"))
    draft_.check_scratch(section, "pixels_most",
                         memory::counted_product(step.limits.pixels_most, kChannels),
                         "a picture of so many pixels");
  if (draft_.has_fields && !draft_.names_picture && draft_.parts.views.empty())
    section.refuse("step", "no field is a picture", "write {field: image, kind: picture}");
  draft_.parts.picture.emplace();
  draft_.parts.picture->limits = step.limits;
}

void PictureCompiler::take(config::ConfigSection& section, const PipelineStep&, std::uint32_t index,
                           const Clip& step) {
  if (draft_.dataset.kind() != sources::RecordKind::value ||
      !draft_.dataset.stored_fields().find("video"))
    section.refuse("step",
                   fmt::format("dataset '{}' has no groups of frames", draft_.dataset.name()),
                   "have a folder of video read as that: format: video");
  if (draft_.has_fields || !draft_.parts.views.empty())
    section.refuse("step", "frames stand alone, with a label at most",
                   "leave 'fields' and 'views' out");
  draft_.parts.picture.emplace();
  draft_.parts.clip = {step, index, 0};
  // What is kept of a group are its frames, whatever a clip takes of them.
  Digest kept = hash(0x766964656fULL);
  for (const char c : video::video_build()) kept = hash(kept, static_cast<unsigned char>(c));
  draft_.parts.info.prefix_hash = kept;
}

void PictureCompiler::check_extent(config::ConfigSection& section, std::string_view key,
                                   std::string_view name,
                                   const std::optional<Extent2>& extent) const {
  if (extent)
    draft_.check_scratch(section, key, PictureBuffer::bytes(*extent),
                         fmt::format("a picture of '{}'", name));
}

std::optional<Extent2> PictureCompiler::made_by(config::ConfigSection& section,
                                                std::string_view name, const StepKind& step,
                                                const std::optional<Extent2>& before) const {
  std::optional<Extent2> made = before;
  if (const auto* resize = std::get_if<Resize>(&step)) {
    made = resize->shorter == 0 ? std::optional(resize->size) : std::nullopt;
  } else if (const auto* centre = std::get_if<CentreCrop>(&step)) {
    made = centre->size;
  } else if (const auto* part = std::get_if<RandomResizedCrop>(&step)) {
    made = part->size;
  } else if (const auto* crop = std::get_if<RandomCrop>(&step)) {
    made = crop->size;
  } else if (const auto* pad = std::get_if<PadEdges>(&step)) {
    if (before) made = padded(*before, pad->padding).extent();
  } else if (const auto* apply = std::get_if<RandomApply>(&step)) {
    for (const NestedStep& inner : apply->steps)
      made = made_by(section, inner.name, inner.kind, made);
    if (apply->probability < 1 && made != before) made.reset();
    return made;
  } else if (const auto* choice = std::get_if<RandomChoice>(&step)) {
    made = made_by(section, choice->steps[0].name, choice->steps[0].kind, before);
    for (const NestedStep& inner : choice->steps)
      if (made_by(section, inner.name, inner.kind, before) != made) made.reset();
    return made;
  }
  check_extent(section, section.has("size") ? "size" : "step", name, made);
  return made;
}

void PictureCompiler::take(config::ConfigSection&, const PipelineStep&, std::uint32_t,
                           const Normalisation& step) {
  normalisation_ = step;
}

void PictureCompiler::take(config::ConfigSection& section, const PipelineStep&, std::uint32_t index,
                           const RandomErasing& step) {
  const bool are_bytes = std::all_of(step.values.begin(), step.values.end(), [](float value) {
    return value >= 0 && value <= 255 && value == std::floor(value);
  });
  if (!normalisation_ && (step.with != RandomErasing::With::values || !are_bytes))
    section.refuse("value", "what is not normalised has values from 0 to 255, all whole",
                   "write such values, or {step: normalise, ...} before it");
  draft_.parts.picture->erasing = {step, index};
}

void PictureCompiler::take(config::ConfigSection& section, const PipelineStep&, std::uint32_t,
                           const Cast& step) {
  if (!Finish::supports(step.type))
    section.refuse("to", "pictures cannot be of this type", "write u8, f16, bf16 or f32");
  if (normalisation_ && step.type == batch::ElementType::u8)
    section.refuse("to", "normalised values are no whole numbers", "write f16, bf16 or f32");
  cast_ = step.type;
}

void PictureCompiler::take(config::ConfigSection&, const PipelineStep&, std::uint32_t,
                           const Layout& step) {
  planes_ = step.planes;
}

void PictureCompiler::take(config::ConfigSection& section, const PipelineStep& step,
                           std::uint32_t index, const PictureByPlugin& kind) {
  if (kind.size.width > 0) extent_ = kind.size;
  check_extent(section, "plugin", step.name, extent_);
  draft_.parts.picture->steps.push_back({step.kind, index});
}

// The field has one frame's type and shape.
void PictureCompiler::end_clip(batch::Field& field) {
  ClipPlan& clip = *draft_.parts.clip;
  clip.bytes = field.row_bytes();
  field.shape.insert(field.shape.begin(), clip.clip.frames);
}

void PictureCompiler::end() {
  if (draft_.parts.picture->finish) return;
  if (!extent_)
    draft_.section.refuse("steps", "pictures would have different sizes, and a batch one",
                          "add centre_crop, random_resized_crop or resize to [height, width]");
  const batch::ElementType type =
      cast_.value_or(normalisation_ ? batch::ElementType::f32 : batch::ElementType::u8);
  const std::optional<std::size_t> named = view_field_ ? view_field_ : draft_.picture_field;
  draft_.parts.picture->field = named.value_or(draft_.parts.spec.fields.size());
  draft_.parts.picture->finish.emplace(type, normalisation_, planes_);
  const auto width = static_cast<std::uint64_t>(extent_->width);
  const auto height = static_cast<std::uint64_t>(extent_->height);
  std::vector<std::uint64_t> shape = {height, width};
  shape.insert(planes_ ? shape.begin() : shape.end(), kChannels);
  if (draft_.parts.clip) {
    draft_.parts.spec.fields.push_back({"video", type, std::move(shape), false});
    return end_clip(draft_.parts.spec.fields.back());
  }
  if (!named) {
    draft_.parts.spec.fields.push_back({"image", type, std::move(shape), false});
  } else {
    draft_.parts.spec.fields[*named].type = type;
    draft_.parts.spec.fields[*named].shape = std::move(shape);
  }
}

void PictureCompiler::begin_view(std::size_t field, const std::optional<Extent2>& extent) {
  const DecodeLimits limits = draft_.parts.picture->limits;
  draft_.parts.picture.emplace().limits = limits;
  extent_ = extent;
  normalisation_.reset();
  cast_.reset();
  planes_ = false;
  view_field_ = field;
}

}  // namespace batchflow::prepare
