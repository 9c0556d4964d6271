#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/random.h"
#include "runtime/prepare/numbers.h"
#include "runtime/prepare/picture_kinds.h"
#include "runtime/prepare/pipeline_compiler.h"
#include "runtime/prepare/plan_fields.h"
#include "runtime/prepare/sample_scratch.h"
#include "runtime/sources/file_kinds.h"
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
// What a pipeline may take of a worker's time for one sample, as the memory of each step is
// bounded.
constexpr std::size_t kStepsMost = 64;

Digest digest_of(std::string_view text, Digest before) {
  Digest digest = hash(before, text.size());
  for (const char c : text) digest = hash(digest, static_cast<unsigned char>(c));
  return digest;
}

Duration cost(Bytes bytes, double ns_per_byte) {
  return Duration(static_cast<std::int64_t>(static_cast<double>(bytes) * ns_per_byte));
}

// Sizes of pictures are not known before they are decoded.
Bytes decoded_guess(const sources::SampleIndex& dataset) {
  return dataset.sums().total / std::max<std::uint64_t>(1, dataset.samples()) * kGrowth;
}

void check_head(config::ConfigSection& section) {
  if (section.has("kind") && section.text("kind", "") != "pipeline")
    section.refuse("kind", "this is no pipeline", "write kind: pipeline");
  section.require("name", "what jobs call it");
  section.require("steps", "a list of steps; [] gives samples as stored");
}

// True if most samples have a label: then those without are damaged, or the exception.
bool has_labels(const sources::SampleIndex& dataset) {
  // Of tables, names of classes may be there without labels.
  if (!dataset.classes().empty() && dataset.kind() != sources::RecordKind::value) return true;
  if (dataset.kind() == sources::RecordKind::rows ||
      dataset.kind() == sources::RecordKind::sequence)
    return false;
  return dataset.sums().labelled > dataset.samples() / 2;
}

}  // namespace

bool is_plugin(config::ConfigSection& step) {
  return step.has("plugin") || step.has("python");
}

void check_count(config::ConfigSection& step, std::size_t before) {
  if (before < kStepsMost) return;
  step.refuse(
      "step", fmt::format("there are {} steps before it", before),
      fmt::format("write at most {} steps, so that no sample takes a worker for long", kStepsMost));
}

PipelineCompiler::PipelineCompiler(config::ConfigSection& section,
                                   const sources::SampleIndex& dataset, const Plugins* plugins,
                                   const memory::ScratchLimits& scratch)
    : section_(section),
      dataset_(dataset),
      plugins_(plugins),
      scratch_(scratch),
      has_labels_(has_labels(dataset)),
      out_(std::make_unique<CompiledPipeline>()) {}

void PipelineCompiler::take_kind(config::ConfigSection& section, const PipelineStep& step,
                                 std::uint32_t index) {
  std::visit([&](const auto& kind) { take(section, step, index, kind); }, step.kind);
}

std::unique_ptr<Pipeline> PipelineCompiler::run() {
  check_head(section_);
  out_->name_ = section_.text("name", "");
  out_->kind_ = dataset_.kind();
  out_->stored_ = dataset_.stored_fields();
  out_->part_ = section_.text("field", "");
  if (!out_->part_.empty()) add_text("field " + out_->part_);
  if (section_.has("views")) name_views();
  if (section_.has("fields")) add_fields();
  section_.sections("steps", [this](config::ConfigSection& step) { add(step); });
  if (!out_->views_.empty())
    add_views();
  else if (out_->picture_)
    end_picture();
  else if (!has_fields_)
    plan_numbers();
  end_sound();
  // What is kept of the picture has none of them behind it.
  if (own_random_) out_->info_.has_random = true;
  if (has_fields_) end_fields();
  if (out_->afterwards_) end_plugins();
  if (out_->spec_.find(sources::kLabelField) == nullptr && has_labels_) {
    out_->label_field_ = out_->spec_.fields.size();
    out_->spec_.fields.push_back(
        {std::string(sources::kLabelField), batch::ElementType::i64, {}, false});
  }
  if (const std::string problem = out_->spec_.problem(); !problem.empty())
    section_.refuse("steps", problem, "give the fields other names, or make the samples smaller");
  end_info();
  return std::move(out_);
}

void PipelineCompiler::add_text(std::string_view line) {
  if (!out_->text_.empty()) out_->text_ += '\n';
  out_->text_ += line;
  out_->info_.hash = digest_of(line, out_->info_.hash);
}

void PipelineCompiler::add(config::ConfigSection& section) {
  check_count(section, all_steps_);
  if (is_plugin(section)) return add_plugin(section);
  const PipelineStep step = read_step(section);
  check_count(section, all_steps_ + count_steps(step.kind) - 1);
  add(section, step);
}

void PipelineCompiler::add(config::ConfigSection& section, const PipelineStep& step) {
  check_stage(section, step);
  if (!out_->views_.empty()) check_beside_views(section, step);
  const std::uint32_t index = steps_++;
  all_steps_ += count_steps(step.kind);
  last_ = step.name;
  last_stage_ = step.stage;
  add_text(step.text);
  if (step.random) out_->info_.has_random = true;
  take_kind(section, step, index);
  if (step.stage <= StepStage::picture && !out_->info_.has_random && !view_field_ && !out_->clip_) {
    out_->info_.prefix_hash = out_->info_.hash;
    out_->picture_->kept = out_->picture_->steps.size();
    kept_extent_ = extent_;
  }
  if (step.stage == StepStage::plugin && !out_->picture_ && !out_->info_.has_random) {
    out_->info_.prefix_hash = out_->info_.hash;
    out_->afterwards_->kept = out_->afterwards_->steps.size();
  }
}

void PipelineCompiler::check_stage(config::ConfigSection& section, const PipelineStep& step) {
  const bool of_pictures = step.stage == StepStage::picture || step.stage == StepStage::normalise ||
                           step.stage == StepStage::erase || step.stage == StepStage::layout;
  if (of_pictures && !out_->picture_)
    section.refuse("step", fmt::format("'{}' works on pictures, and there is none yet", step.name),
                   "write {step: decode} before it");
  if (!of_pictures && step.stage != StepStage::cast && step.stage != StepStage::decode &&
      step.stage != StepStage::plugin && out_->picture_)
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

void PipelineCompiler::take(config::ConfigSection& section, const PipelineStep&, std::uint32_t,
                            const Decode& step) {
  if (dataset_.kind() == sources::RecordKind::rows ||
      dataset_.kind() == sources::RecordKind::sequence)
    section.refuse("step", fmt::format("dataset '{}' holds numbers", dataset_.name()),
                   "leave decode out");
  if (sources::none_can_be_decoded(dataset_))
    section.refuse(
        "step",
        fmt::format("'decode' is for pictures in {}, and dataset '{}' holds {}", decoded_kinds(),
                    dataset_.name(), sources::endings_text(dataset_, true)),
        "convert them, or name a pipeline without decode, as 'bytes'");
  if (section.has("pixels_most"))
    check_scratch(section, "pixels_most",
                  memory::counted_product(step.limits.pixels_most, kChannels),
                  "a picture of so many pixels");
  if (has_fields_ && !names_picture_ && out_->views_.empty())
    section.refuse("step", "no field is a picture", "write {field: image, kind: picture}");
  out_->picture_.emplace();
  out_->picture_->limits = step.limits;
}

void PipelineCompiler::check_extent(config::ConfigSection& section, std::string_view key,
                                    std::string_view name, const std::optional<Extent2>& extent) {
  if (extent)
    check_scratch(section, key, PictureBuffer::bytes(*extent),
                  fmt::format("a picture of '{}'", name));
}

void PipelineCompiler::check_scratch(config::ConfigSection& section, std::string_view key,
                                     Bytes bytes, std::string_view what) const {
  const Bytes most = scratch_.most();
  if (bytes > most)
    section.refuse(key, fmt::format("{} takes {}", what, in_mib(bytes)),
                   fmt::format("preparing a sample may take {}: write less, or have the service "
                               "given more ({})",
                               in_mib(most), kScratchSetting));
}

std::optional<Extent2> PipelineCompiler::made_by(config::ConfigSection& section,
                                                 std::string_view name, const StepKind& step,
                                                 const std::optional<Extent2>& before) {
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

void PipelineCompiler::take(config::ConfigSection&, const PipelineStep&, std::uint32_t,
                            const Normalisation& step) {
  normalisation_ = step;
}

void PipelineCompiler::take(config::ConfigSection& section, const PipelineStep&,
                            std::uint32_t index, const RandomErasing& step) {
  const bool are_bytes = std::all_of(step.values.begin(), step.values.end(), [](float value) {
    return value >= 0 && value <= 255 && value == std::floor(value);
  });
  if (!normalisation_ && (step.with != RandomErasing::With::values || !are_bytes))
    section.refuse("value", "what is not normalised has values from 0 to 255, all whole",
                   "write such values, or {step: normalise, ...} before it");
  out_->picture_->erasing = {step, index};
}

void PipelineCompiler::take(config::ConfigSection& section, const PipelineStep&, std::uint32_t,
                            const Cast& step) {
  if (!out_->picture_) return cast_numbers(section, step.type);
  if (!Finish::supports(step.type))
    section.refuse("to", "pictures cannot be of this type", "write u8, f16, bf16 or f32");
  if (normalisation_ && step.type == batch::ElementType::u8)
    section.refuse("to", "normalised values are no whole numbers", "write f16, bf16 or f32");
  cast_ = step.type;
}

void PipelineCompiler::take(config::ConfigSection&, const PipelineStep&, std::uint32_t,
                            const Layout& step) {
  planes_ = step.planes;
}

void PipelineCompiler::take(config::ConfigSection& section, const PipelineStep&, std::uint32_t,
                            const Tokens& step) {
  batch::Field& result = worked_on(section).second;
  const std::vector<std::uint64_t> shape = result.shape;
  if (shape.size() != 1 || !converts(result.type, batch::ElementType::i64))
    section.refuse("step", fmt::format("field '{}' is no sequence of tokens", result.name),
                   "leave this step out, or name another field");
  if (step.fit == Tokens::Fit::pack) {
    if (result.ragged || shape[0] < step.length)
      section.refuse("length",
                     fmt::format("a sample of '{}' has {} tokens", result.name,
                                 result.ragged ? "not always as many" : std::to_string(shape[0])),
                     "pack samples of one size, into sequences that are shorter");
    result.shape = {shape[0] / step.length, step.length};
  } else {
    if (result.type == batch::ElementType::u8 || result.type == batch::ElementType::u16
            ? step.pad_with >> 8 * batch::element_bytes(result.type) != 0
            : step.pad_with > INT32_MAX)
      section.refuse("pad_with",
                     fmt::format("{} is no {}", step.pad_with, batch::element_name(result.type)),
                     "write a smaller number");
    result.shape = {step.length};
  }
  result.ragged = false;
  worked_on(section).first.tokens = step;
}

void PipelineCompiler::take(config::ConfigSection& section, const PipelineStep&, std::uint32_t,
                            const Reshape& step) {
  batch::Field& result = worked_on(section).second;
  const auto elements = [](const std::vector<std::uint64_t>& shape) {
    double product = 1;
    for (const std::uint64_t size : shape) product *= static_cast<double>(size);
    return product;
  };
  if (result.ragged || elements(result.shape) != elements(step.shape))
    section.refuse("shape",
                   result.ragged
                       ? fmt::format("field '{}' has not always as many numbers", result.name)
                       : fmt::format("field '{}' has {} numbers a sample", result.name,
                                     elements(result.shape)),
                   "write a shape of as many");
  result.shape = step.shape;
}

void PipelineCompiler::cast_numbers(config::ConfigSection& section, batch::ElementType type) {
  batch::Field& result = worked_on(section).second;
  if (!converts(result.type, type))
    section.refuse(
        "to",
        fmt::format("not all values of {}, as field '{}' has it, are values of {}",
                    batch::element_name(result.type), result.name, batch::element_name(type)),
        "write a wider type, or a floating one");
  result.type = type;
}

std::pair<NumbersPlan&, batch::Field&> PipelineCompiler::worked_on(config::ConfigSection& section) {
  if (own_) return {own_->numbers, out_->spec_.fields[own_->numbers.field]};
  if (has_fields_)
    section.refuse("step", "no picture is decoded, and each of 'fields' has steps of its own",
                   "write this step below the field that it is for");
  plan_numbers();
  for (std::size_t i = 0; i < out_->numbers_.size(); ++i) {
    const std::string& name = out_->numbers_[i].stored.name;
    if (out_->part_.empty() ? name != sources::kLabelField : name == out_->part_)
      return {out_->numbers_[i], out_->spec_.fields[i]};
  }
  refuse_part(section, "step", dataset_, out_->part_);
}

bool PipelineCompiler::has_parts() const {
  return dataset_.kind() == sources::RecordKind::tar ||
         dataset_.kind() == sources::RecordKind::example;
}

void PipelineCompiler::plan_numbers() {
  if (!out_->numbers_.empty()) return;
  batch::BatchSpec& spec = out_->spec_;
  spec = stored_fields(dataset_);
  const std::string& part = out_->part_;
  if (spec.fields.empty()) {
    if (part.empty())
      section_.refuse("steps", "samples of this dataset make no batch as they are stored",
                      "write field: NAME, or decode a picture; the log says why");
    spec.fields = {{part, batch::ElementType::u8, {dataset_.sums().largest}, true}};
  } else if (!part.empty() && !spec.find(part)) {
    refuse_part(section_, "field", dataset_, out_->part_);
  } else if (has_parts()) {
    std::erase_if(spec.fields, [&](const batch::Field& field) {
      return part.empty() ? has_labels_ && sources::is_label_part(dataset_.kind(), field.name)
                          : field.name != part;
    });
  }
  for (std::size_t i = 0; i < spec.fields.size(); ++i)
    out_->numbers_.push_back({spec.fields[i], i});
}

void PipelineCompiler::end_picture() {
  if (out_->picture_->finish) return;
  if (!extent_)
    section_.refuse("steps", "pictures would have different sizes, and a batch one",
                    "add centre_crop, random_resized_crop or resize to [height, width]");
  const batch::ElementType type =
      cast_.value_or(normalisation_ ? batch::ElementType::f32 : batch::ElementType::u8);
  const std::optional<std::size_t> named = view_field_ ? view_field_ : picture_field_;
  out_->picture_->field = named.value_or(out_->spec_.fields.size());
  out_->picture_->finish.emplace(type, normalisation_, planes_);
  const auto width = static_cast<std::uint64_t>(extent_->width);
  const auto height = static_cast<std::uint64_t>(extent_->height);
  std::vector<std::uint64_t> shape = {height, width};
  shape.insert(planes_ ? shape.begin() : shape.end(), kChannels);
  if (out_->clip_) {
    out_->spec_.fields.push_back({"video", type, std::move(shape), false});
    return end_clip(out_->spec_.fields.back());
  }
  if (!named) {
    out_->spec_.fields.push_back({"image", type, std::move(shape), false});
  } else {
    out_->spec_.fields[*named].type = type;
    out_->spec_.fields[*named].shape = std::move(shape);
  }
}

void PipelineCompiler::end_info() {
  engine::PipelineInfo& info = out_->info_;
  for (const batch::Field& field : out_->spec_.fields)
    info.prepared_bytes += field.row_bytes() * field.rows_most();
  if (out_->clip_) {
    info.decoded_bytes = decoded_guess(dataset_) * kGrowthOfVideo;
    info.decode_cost = cost(info.decoded_bytes, kDecodeNsPerByte);
  } else if (out_->picture_) {
    info.decoded_bytes =
        kept_extent_ ? PictureBuffer::bytes(*kept_extent_) : decoded_guess(dataset_);
    info.decode_cost = cost(decoded_guess(dataset_), kDecodeNsPerByte);
    if (!out_->joint_.empty()) info.decoded_bytes += decoded_guess(dataset_) / kGrowth;
  } else if (out_->afterwards_ && out_->afterwards_->kept > 0) {
    const Afterwards& made = *out_->afterwards_;
    info.decoded_bytes = made.steps[made.kept - 1].plugin->declared().output.row_bytes();
    info.decode_cost = static_cast<std::int64_t>(made.kept) * kPluginCost;
  }
  info.augment_cost = cost(info.prepared_bytes, kAugmentNsPerByte);
}

void check_pipeline(const config::ConfigNode& pipeline) {
  config::read_config(pipeline, [&](config::ConfigSection& section) {
    check_head(section);
    section.has("field");
    section.sections("fields", [](config::ConfigSection& field) {
      read_field(field);
      field.sections("steps", [](config::ConfigSection& step) {
        if (!is_plugin(step)) read_step(step);
      });
    });
    section.sections("views", [](config::ConfigSection& view) {
      read_view(view);
      view.sections("steps", [](config::ConfigSection& step) {
        if (!is_plugin(step)) read_step(step);
      });
    });
    const config::ConfigNode& steps = *pipeline.find("steps");
    std::size_t at = 0;
    section.sections("steps", [&](config::ConfigSection& step) {
      check_count(step, at);
      const config::ConfigNode& written =
          steps.kind == config::ConfigNode::Kind::list ? steps.list[at] : steps;
      ++at;
      if (!is_plugin(step)) {
        read_step(step);
      } else {
        for (const config::ConfigEntry& parameter : written.map) step.has(parameter.key);
      }
    });
  });
}

std::unique_ptr<Pipeline> compile_pipeline(config::ConfigSection& section,
                                           const sources::SampleIndex& dataset,
                                           const memory::ScratchLimits& scratch) {
  return PipelineCompiler(section, dataset, nullptr, scratch).run();
}

std::unique_ptr<Pipeline> compile_pipeline(const config::ConfigNode& pipeline,
                                           const sources::SampleIndex& dataset,
                                           const step::StepSettings& steps,
                                           const memory::ScratchLimits& scratch) {
  const PipelineCompiler::Plugins plugins{pipeline, steps};
  std::unique_ptr<Pipeline> compiled;
  config::read_config(pipeline, [&](config::ConfigSection& section) {
    compiled = PipelineCompiler(section, dataset, &plugins, scratch).run();
  });
  return compiled;
}

namespace {

bool has_step_with(const config::ConfigNode& pipeline, std::string_view key) {
  const config::ConfigNode* const steps = pipeline.find("steps");
  return steps &&
         std::any_of(steps->list.begin(), steps->list.end(),
                     [key](const config::ConfigNode& step) { return step.find(key) != nullptr; });
}

}  // namespace

bool has_plugins(const config::ConfigNode& pipeline) {
  return has_step_with(pipeline, "plugin");
}

bool has_functions(const config::ConfigNode& pipeline) {
  return has_step_with(pipeline, "python");
}

}  // namespace batchflow::prepare
