#include "runtime/prepare/steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

namespace batchflow::prepare {
namespace {

constexpr int kResizeSideMost = 1 << 16;
constexpr int kPixelsLog2Most = 40;  // of decode's limit: sizes stay far from overflow

struct Read {
  StepKind kind;
  std::string parameters;
};

// A list of `count` numbers, each from `least` to `most`; `fallback` if the key is absent.
template <std::size_t count>
std::array<double, count> numbers(config::ConfigSection& section, std::string_view key,
                                  const std::array<double, count>& fallback, double least,
                                  double most) {
  if (!section.has(key)) return fallback;
  const std::string remedy = fmt::format("write [{}]: {} numbers from {} to {}",
                                         fmt::join(fallback, ", "), count, least, most);
  const std::vector<std::string> texts = section.texts(key);
  if (texts.size() != count) section.refuse(key, fmt::format("{} values", texts.size()), remedy);
  std::array<double, count> values{};
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = parse_number(texts[i]);
    if (!value || !(*value >= least && *value <= most))
      section.refuse(key, fmt::format("'{}' is not such a number", texts[i].substr(0, 40)), remedy);
    values[i] = *value;
  }
  return values;
}

Range range(config::ConfigSection& section, std::string_view key, const Range& fallback,
            double least, double most) {
  const auto [from, to] = numbers<2>(section, key, {fallback.least, fallback.most}, least, most);
  if (from > to) section.refuse(key, "the first is above the second", "write [least, most]");
  return {from, to};
}

// One number for a square, or [height, width], as in torchvision.
std::vector<std::uint64_t> whole_numbers(config::ConfigSection& section, std::string_view key,
                                         std::uint64_t most, std::string_view remedy) {
  section.require(key, remedy);
  std::vector<std::uint64_t> values;
  for (const std::string& text : section.texts(key)) {
    const auto value = parse_unsigned(text);
    if (!value || *value == 0 || *value > most)
      section.refuse(
          key, fmt::format("'{}' is not a whole number from 1 to {}", text.substr(0, 40), most),
          remedy);
    values.push_back(*value);
  }
  return values;
}

Extent2 size(config::ConfigSection& section) {
  constexpr std::string_view remedy = "write size: 224, or size: [height, width]";
  const auto values = whole_numbers(section, "size", kResizeSideMost, remedy);
  if (values.size() != 1 && values.size() != 2)
    section.refuse("size", fmt::format("{} values", values.size()), remedy);
  return {static_cast<int>(values.back()), static_cast<int>(values.front())};
}

Read read_decode(config::ConfigSection& section) {
  Decode step;
  step.limits.pixels_most = static_cast<std::uint64_t>(
      section.integer("pixels_most", static_cast<std::int64_t>(step.limits.pixels_most), 1,
                      std::int64_t{1} << kPixelsLog2Most));
  return {step, fmt::format("pixels_most={} by {}", step.limits.pixels_most, jpeg_build())};
}

Read read_resize(config::ConfigSection& section) {
  Resize step;
  step.size = size(section);
  const bool one = section.texts("size").size() == 1;
  if (!one) return {step, fmt::format("size={}x{}", step.size.height, step.size.width)};
  step.shorter = step.size.width;
  return {step, fmt::format("shorter={}", step.shorter)};
}

Read read_centre_crop(config::ConfigSection& section) {
  const CentreCrop step{size(section)};
  return {step, fmt::format("size={}x{}", step.size.height, step.size.width)};
}

Read read_random_resized_crop(config::ConfigSection& section) {
  RandomResizedCrop step;
  step.size = size(section);
  step.area = range(section, "scale", {0.08, 1.0}, 1e-6, 1);
  step.ratio = range(section, "ratio", {3.0 / 4.0, 4.0 / 3.0}, 1e-3, 1e3);
  return {step,
          fmt::format("size={}x{} scale={}..{} ratio={}..{}", step.size.height, step.size.width,
                      step.area.least, step.area.most, step.ratio.least, step.ratio.most)};
}

Read read_horizontal_flip(config::ConfigSection& section) {
  const HorizontalFlip step{section.number("probability", 0.5, 0, 1)};
  return {step, fmt::format("probability={}", step.probability)};
}

Read read_colour_jitter(config::ConfigSection& section) {
  ColourJitter step;
  constexpr std::string_view names[kColourChanges] = {"brightness", "contrast", "saturation",
                                                      "hue"};
  std::string text;
  for (std::size_t i = 0; i < kColourChanges; ++i) {
    // One number is how far the range reaches on both sides of the value that changes nothing; two
    // numbers are the range itself.
    const bool hue = i == static_cast<std::size_t>(ColourChange::hue);
    const double middle = hue ? 0 : 1;
    const double least = hue ? -0.5 : 0;
    const double most = hue ? 0.5 : 100;
    Range& values = step.ranges[i];
    if (section.has(names[i]) && section.texts(names[i]).size() == 2) {
      values = range(section, names[i], {middle, middle}, least, most);
    } else {
      const double reach = section.number(names[i], 0, 0, most);
      values = {std::max(least, middle - reach), middle + reach};
    }
    text += fmt::format("{}{}={}..{}", i > 0 ? " " : "", names[i], values.least, values.most);
  }
  return {step, text};
}

Read read_normalise(config::ConfigSection& section) {
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

Read read_cast(config::ConfigSection& section) {
  section.require("to", "write an element type, as f32");
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < batch::kElementTypes; ++i)
    names.push_back(batch::element_name(static_cast<batch::ElementType>(i)));
  const Cast step{section.choice("to", names, batch::ElementType::u8)};
  return {step, fmt::format("to={}", batch::element_name(step.type))};
}

Read read_layout(config::ConfigSection& section) {
  section.require("order", "write nchw or nhwc");
  const Layout step{section.one_of("order", {"nhwc", "nchw"}, 0) == 1};
  return {step, step.planes ? "order=nchw" : "order=nhwc"};
}

Read read_tokens(config::ConfigSection& section) {
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

Read read_reshape(config::ConfigSection& section) {
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
  Read (*read)(config::ConfigSection&);
};
constexpr StepEntry kSteps[] = {
    {"decode", 1, StepStage::decode, false, read_decode},
    {"resize", 1, StepStage::picture, false, read_resize},
    {"centre_crop", 1, StepStage::picture, false, read_centre_crop},
    {"random_resized_crop", 1, StepStage::picture, true, read_random_resized_crop},
    {"horizontal_flip", 1, StepStage::picture, true, read_horizontal_flip},
    {"colour_jitter", 1, StepStage::picture, true, read_colour_jitter},
    {"normalise", 1, StepStage::normalise, false, read_normalise},
    {"tokens", 1, StepStage::tokens, false, read_tokens},
    {"cast", 1, StepStage::cast, false, read_cast},
    {"layout", 1, StepStage::layout, false, read_layout},
    {"reshape", 1, StepStage::reshape, false, read_reshape},
};

}  // namespace

PipelineStep read_step(config::ConfigSection& section) {
  section.require("step", "write what is to be done, as {step: decode}");
  const std::string name = section.text("step", "");
  std::vector<std::string_view> names;
  for (const StepEntry& entry : kSteps) {
    names.push_back(entry.name);
    if (entry.name != name) continue;
    Read read = entry.read(section);
    return {entry.name, entry.stage, entry.random, std::move(read.kind),
            fmt::format("{}/{}{}{}", entry.name, entry.version, read.parameters.empty() ? "" : " ",
                        read.parameters)};
  }
  const std::string nearest = nearest_name(name, names);
  section.refuse("step", fmt::format("no step '{}'", name.substr(0, 40)),
                 nearest.empty() ? fmt::format("write one of {}", fmt::join(names, ", "))
                                 : fmt::format("did you mean '{}'?", nearest));
}

}  // namespace batchflow::prepare
