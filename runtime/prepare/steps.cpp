#include "runtime/prepare/steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/prepare/picture_kinds.h"
#include "runtime/prepare/step_readers.h"

namespace batchflow::prepare {
namespace {

constexpr int kPixelsLog2Most = 40;  // of decode's limit: sizes stay far from overflow

ReadStep read_decode(config::ConfigSection& section) {
  Decode step;
  step.limits.pixels_most = static_cast<std::uint64_t>(
      section.integer("pixels_most", static_cast<std::int64_t>(step.limits.pixels_most), 1,
                      std::int64_t{1} << kPixelsLog2Most));
  return {step, fmt::format("pixels_most={} by {}", step.limits.pixels_most, decoder_builds())};
}

ReadStep read_normalise(config::ConfigSection& section) {
  section.require("mean", "write [0.485, 0.456, 0.406]: of red, green and blue, of values to 1");
  section.require("std", "write [0.229, 0.224, 0.225]: of red, green and blue, of values to 1");
  const auto mean = numbers<3>(section, "mean", {0, 0, 0}, -1e6, 1e6);
  const auto deviation = numbers<3>(section, "std", {1, 1, 1}, 1e-6, 1e6);
  Normalisation step;
  for (std::size_t c = 0; c < kChannels; ++c) {
    step.mean[c] = static_cast<float>(mean[c]);
    step.deviation[c] = static_cast<float>(deviation[c]);
  }
  return {step,
          fmt::format("mean={} std={}", fmt::join(step.mean, ","), fmt::join(step.deviation, ","))};
}

ReadStep read_cast(config::ConfigSection& section) {
  section.require("to", "write an element type, as f32");
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < batch::kElementTypes; ++i)
    names.push_back(batch::element_name(static_cast<batch::ElementType>(i)));
  const Cast step{section.choice("to", names, batch::ElementType::u8)};
  return {step, fmt::format("to={}", batch::element_name(step.type))};
}

ReadStep read_layout(config::ConfigSection& section) {
  section.require("order", "write nchw or nhwc");
  const Layout step{section.one_of("order", {"nhwc", "nchw"}, 0) == 1};
  return {step, step.planes ? "order=nchw" : "order=nhwc"};
}

ReadStep read_tokens(config::ConfigSection& section) {
  Tokens step;
  section.require("length", "how many tokens a sequence has");
  step.length = static_cast<std::uint64_t>(section.integer("length", 1, 1, 1 << 30));
  step.fit = section.choice("fit", {"cut_or_pad", "pack"}, step.fit);
  if (section.has("pad_with") && step.fit == Tokens::Fit::pack)
    section.refuse("pad_with", "packed sequences are full", "leave it out");
  step.pad_with =
      static_cast<std::uint64_t>(section.integer("pad_with", 0, 0, std::int64_t{0xffffffff}));
  return {step, fmt::format("length={} fit={} pad_with={}", step.length,
                            step.fit == Tokens::Fit::pack ? "pack" : "cut_or_pad", step.pad_with)};
}

ReadStep read_reshape(config::ConfigSection& section) {
  const Reshape step{whole_numbers(section, "shape", std::uint64_t{1} << 30,
                                   "write the shape of one sample, as [28, 28]")};
  if (step.shape.size() > batch::Field::kDimensionsMost)
    section.refuse("shape", fmt::format("{} dimensions", step.shape.size()),
                   fmt::format("write at most {}", batch::Field::kDimensionsMost));
  return {step, fmt::format("shape={}", fmt::join(step.shape, "x"))};
}

struct StepEntry {
  std::string_view name;
  int version;
  StepStage stage;
  bool random;
  ReadStep (*read)(config::ConfigSection&);
  // Of steps that contain others.
  ReadStep (*read_outer)(config::ConfigSection&, int depth) = nullptr;
};
constexpr StepEntry kSteps[] = {
    {"decode", 1, StepStage::decode, false, read_decode},
    {"clip", 1, StepStage::decode, false, read_clip},
    {"random_clip", 1, StepStage::decode, true, read_random_clip},
    {"resize", 1, StepStage::picture, false, read_resize},
    {"centre_crop", 1, StepStage::picture, false, read_centre_crop},
    {"random_resized_crop", 1, StepStage::picture, true, read_random_resized_crop},
    {"random_crop", 1, StepStage::picture, true, read_random_crop},
    {"pad", 1, StepStage::picture, false, read_pad},
    {"horizontal_flip", 1, StepStage::picture, true, read_horizontal_flip},
    {"vertical_flip", 1, StepStage::picture, true, read_vertical_flip},
    {"random_rotation", 1, StepStage::picture, true, read_random_rotation},
    {"random_affine", 1, StepStage::picture, true, read_random_affine},
    {"colour_jitter", 1, StepStage::picture, true, read_colour_jitter},
    {"greyscale", 1, StepStage::picture, false, read_greyscale},
    {"random_greyscale", 1, StepStage::picture, true, read_random_greyscale},
    {"gaussian_blur", 1, StepStage::picture, true, read_gaussian_blur},
    {"sharpness", 1, StepStage::picture, true, read_sharpness},
    {"invert", 1, StepStage::picture, true, read_invert},
    {"posterize", 1, StepStage::picture, true, read_posterize},
    {"solarize", 1, StepStage::picture, true, read_solarize},
    {"autocontrast", 1, StepStage::picture, true, read_autocontrast},
    {"equalize", 1, StepStage::picture, true, read_equalize},
    {"rand_augment", 1, StepStage::picture, true, read_rand_augment},
    {"trivial_augment_wide", 1, StepStage::picture, true, read_trivial_augment},
    {"auto_augment", 1, StepStage::picture, true, read_auto_augment},
    {"random_apply", 1, StepStage::picture, true, nullptr, read_random_apply},
    {"random_choice", 1, StepStage::picture, true, nullptr, read_random_choice},
    {"normalise", 1, StepStage::normalise, false, read_normalise},
    {"random_erasing", 1, StepStage::erase, true, read_random_erasing},
    {"decode_sound", 1, StepStage::sound, false, read_decode_sound},
    {"cut_sound", 1, StepStage::cut_sound, false, read_cut_sound},
    {"random_cut_sound", 1, StepStage::cut_sound, true, read_random_cut_sound},
    {"mel_spectrogram", 1, StepStage::mel, false, read_mel_spectrogram},
    {"tokens", 1, StepStage::tokens, false, read_tokens},
    {"cast", 1, StepStage::cast, false, read_cast},
    {"layout", 1, StepStage::layout, false, read_layout},
    {"reshape", 1, StepStage::reshape, false, read_reshape},
};

}  // namespace

PipelineStep read_step(config::ConfigSection& section, int depth) {
  section.require("step", "write what is to be done, as {step: decode}");
  const std::string name = section.text("step", "");
  std::vector<std::string_view> names;
  for (const StepEntry& entry : kSteps) {
    names.push_back(entry.name);
    if (entry.name != name) continue;
    ReadStep read = entry.read ? entry.read(section) : entry.read_outer(section, depth);
    return {entry.name, entry.stage, entry.random, std::move(read.kind),
            fmt::format("{}/{}{}{}", entry.name, entry.version, read.parameters.empty() ? "" : " ",
                        read.parameters)};
  }
  const std::string nearest = nearest_name(name, names);
  section.refuse("step", fmt::format("no step '{}'", name.substr(0, 40)),
                 nearest.empty() ? fmt::format("write one of {}", fmt::join(names, ", "))
                                 : fmt::format("did you mean '{}'?", nearest));
}

std::size_t count_steps(const StepKind& kind) {
  const auto with_inner = [](const std::vector<NestedStep>& steps) {
    std::size_t sum = 1;
    for (const NestedStep& step : steps) sum += count_steps(step.kind);
    return sum;
  };
  if (const auto* augment = std::get_if<RandAugment>(&kind))
    return static_cast<std::size_t>(augment->operations);
  if (const auto* apply = std::get_if<RandomApply>(&kind)) return with_inner(apply->steps);
  if (const auto* choice = std::get_if<RandomChoice>(&kind)) return with_inner(choice->steps);
  return 1;
}

}  // namespace batchflow::prepare
