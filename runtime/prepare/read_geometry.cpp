// The parameters of steps that change the size and the place of pictures.
#include <string>
#include <vector>

#include "runtime/prepare/step_readers.h"

namespace batchflow::prepare {
namespace {

constexpr int kResizeSideMost = 1 << 16;
constexpr double kDegreesMost = 360;
constexpr double kShearMost = 89;  // degrees; at 90 nothing would be left of a picture
constexpr std::string_view kFilters[] = {"bilinear", "bicubic", "nearest"};
constexpr std::string_view kPadModes[] = {"constant", "reflect", "edge", "symmetric"};

// One number for a square, or [height, width], as in torchvision.
Extent2 size(config::ConfigSection& section) {
  constexpr std::string_view remedy = "write size: 224, or size: [height, width]";
  const auto values = whole_numbers(section, "size", kResizeSideMost, remedy);
  if (values.size() != 1 && values.size() != 2)
    section.refuse("size", fmt::format("{} values", values.size()), remedy);
  return {static_cast<int>(values.back()), static_cast<int>(values.front())};
}

// Pipelines without it keep the text that they had before there was it.
std::string text_of(Filter filter) {
  if (filter == Filter::bilinear) return "";
  return fmt::format(" interpolation={}", kFilters[static_cast<std::size_t>(filter)]);
}
Filter read_filter(config::ConfigSection& section) {
  return section.choice("interpolation", {std::begin(kFilters), std::end(kFilters)},
                        Filter::bilinear);
}

// As many numbers as the key has, each from `least` to `most`.
std::vector<double> some_numbers(config::ConfigSection& section, std::string_view key, double least,
                                 double most, std::string_view remedy) {
  std::vector<double> values;
  for (const std::string& text : section.texts(key)) {
    const auto value = parse_number(text);
    if (!value || !(*value >= least && *value <= most))
      section.refuse(
          key, fmt::format("'{}' is no number from {} to {}", text.substr(0, 40), least, most),
          remedy);
    values.push_back(*value);
  }
  return values;
}

int whole(config::ConfigSection& section, std::string_view key, double value,
          std::string_view remedy) {
  if (value != static_cast<int>(value))
    section.refuse(key, fmt::format("{} is not whole", value), remedy);
  return static_cast<int>(value);
}

Colour read_fill(config::ConfigSection& section) {
  if (!section.has("fill")) return {};
  constexpr std::string_view remedy = "write fill: 0, or [red, green, blue], of values to 255";
  const std::vector<double> values = some_numbers(section, "fill", 0, 255, remedy);
  if (values.size() != 1 && values.size() != kChannels)
    section.refuse("fill", fmt::format("{} values", values.size()), remedy);
  Colour fill;
  for (std::size_t c = 0; c < fill.size(); ++c)
    fill[c] = static_cast<std::uint8_t>(
        whole(section, "fill", values[values.size() == 1 ? 0 : c], remedy));
  return fill;
}

Padding read_padding(config::ConfigSection& section) {
  if (!section.has("padding")) return {};
  constexpr std::string_view remedy =
      "write padding: 4, [left and right, top and bottom], or [left, top, right, bottom]";
  std::vector<int> all;
  for (const double value : some_numbers(section, "padding", 0, kResizeSideMost, remedy))
    all.push_back(whole(section, "padding", value, remedy));
  if (all.size() == 1) return {all[0], all[0], all[0], all[0]};
  if (all.size() == 2) return {all[0], all[1], all[0], all[1]};
  if (all.size() != 4) section.refuse("padding", fmt::format("{} values", all.size()), remedy);
  return {all[0], all[1], all[2], all[3]};
}
std::string text_of(const Padding& padding) {
  return fmt::format("padding={},{},{},{}", padding.left, padding.top, padding.right,
                     padding.bottom);
}

PadStyle read_pad_style(config::ConfigSection& section) {
  PadStyle style;
  style.mode = section.choice("padding_mode", {std::begin(kPadModes), std::end(kPadModes)},
                              PadMode::constant);
  if (style.mode != PadMode::constant && section.has("fill"))
    section.refuse("fill", "there is no colour around a picture that is mirrored or continued",
                   "leave it out, or write padding_mode: constant");
  style.fill = read_fill(section);
  return style;
}
std::string text_of(const PadStyle& style) {
  return fmt::format("padding_mode={} fill={}", kPadModes[static_cast<std::size_t>(style.mode)],
                     fmt::join(style.fill, ","));
}

// One number is how far the range reaches on both sides of 0.
Range read_angles(config::ConfigSection& section, std::string_view key, double most) {
  if (section.has(key) && section.texts(key).size() == 2)
    return read_range(section, key, {0, 0}, -most, most);
  const double reach = section.number(key, 0, 0, most);
  return {-reach, reach};
}
std::string text_of(const Range& range) {
  return fmt::format("{}..{}", range.least, range.most);
}

// As torchvision's: one number or two for the shear along x, four for x and y.
void read_shear(config::ConfigSection& section, RandomAffine& step) {
  if (!section.has("shear") || section.texts("shear").size() != 4) {
    step.shear_x = read_angles(section, "shear", kShearMost);
    return;
  }
  constexpr std::string_view remedy = "write [least x, most x, least y, most y], in degrees";
  const std::vector<double> all = some_numbers(section, "shear", -kShearMost, kShearMost, remedy);
  step.shear_x = {all[0], all[1]};
  step.shear_y = {all[2], all[3]};
  for (const Range& range : {step.shear_x, step.shear_y})
    if (range.least > range.most)
      section.refuse("shear", fmt::format("{} is above {}", range.least, range.most), remedy);
}

}  // namespace

Range read_range(config::ConfigSection& section, std::string_view key, const Range& fallback,
                 double least, double most) {
  const auto [from, to] = numbers<2>(section, key, {fallback.least, fallback.most}, least, most);
  if (from > to) section.refuse(key, "the first is above the second", "write [least, most]");
  return {from, to};
}

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

WarpStyle read_warp_style(config::ConfigSection& section) {
  WarpStyle style;
  constexpr Filter kOrder[] = {Filter::nearest, Filter::bilinear, Filter::bicubic};
  style.filter = kOrder[section.one_of("interpolation", {"nearest", "bilinear", "bicubic"}, 0)];
  style.fill = read_fill(section);
  return style;
}
std::string text_of(const WarpStyle& style) {
  return fmt::format("interpolation={} fill={}", kFilters[static_cast<std::size_t>(style.filter)],
                     fmt::join(style.fill, ","));
}

ReadStep read_resize(config::ConfigSection& section) {
  Resize step;
  step.size = size(section);
  step.filter = read_filter(section);
  const std::string filter = text_of(step.filter);
  const bool one = section.texts("size").size() == 1;
  if (!one) return {step, fmt::format("size={}x{}{}", step.size.height, step.size.width, filter)};
  step.shorter = step.size.width;
  return {step, fmt::format("shorter={}{}", step.shorter, filter)};
}

ReadStep read_centre_crop(config::ConfigSection& section) {
  const CentreCrop step{size(section)};
  return {step, fmt::format("size={}x{}", step.size.height, step.size.width)};
}

ReadStep read_random_resized_crop(config::ConfigSection& section) {
  RandomResizedCrop step;
  step.size = size(section);
  step.area = read_range(section, "scale", {0.08, 1.0}, 1e-6, 1);
  step.ratio = read_range(section, "ratio", {3.0 / 4.0, 4.0 / 3.0}, 1e-3, 1e3);
  step.filter = read_filter(section);
  return {step, fmt::format("size={}x{} scale={}..{} ratio={}..{}{}", step.size.height,
                            step.size.width, step.area.least, step.area.most, step.ratio.least,
                            step.ratio.most, text_of(step.filter))};
}

ReadStep read_random_crop(config::ConfigSection& section) {
  RandomCrop step;
  step.size = size(section);
  step.padding = read_padding(section);
  step.pad_if_needed = section.flag("pad_if_needed", false);
  step.style = read_pad_style(section);
  return {step, fmt::format("size={}x{} {} pad_if_needed={} {}", step.size.height, step.size.width,
                            text_of(step.padding), step.pad_if_needed, text_of(step.style))};
}

ReadStep read_pad(config::ConfigSection& section) {
  section.require("padding", "write how many pixels stand around the picture, as 4");
  PadEdges step;
  step.padding = read_padding(section);
  step.style = read_pad_style(section);
  return {step, fmt::format("{} {}", text_of(step.padding), text_of(step.style))};
}

ReadStep read_horizontal_flip(config::ConfigSection& section) {
  const Flip step{false, section.number("probability", 0.5, 0, 1)};
  return {step, fmt::format("probability={}", step.probability)};
}

ReadStep read_vertical_flip(config::ConfigSection& section) {
  const Flip step{true, section.number("probability", 0.5, 0, 1)};
  return {step, fmt::format("probability={}", step.probability)};
}

ReadStep read_random_rotation(config::ConfigSection& section) {
  section.require("degrees", "write 10, or [-10, 10]");
  RandomRotation step;
  step.degrees = read_angles(section, "degrees", kDegreesMost);
  step.style = read_warp_style(section);
  return {step, fmt::format("degrees={} {}", text_of(step.degrees), text_of(step.style))};
}

ReadStep read_random_affine(config::ConfigSection& section) {
  section.require("degrees", "write 10, or [-10, 10]; 0 for no rotation");
  RandomAffine step;
  step.degrees = read_angles(section, "degrees", kDegreesMost);
  step.translate = numbers<2>(section, "translate", {0, 0}, 0, 1);
  step.scale = read_range(section, "scale", {1, 1}, 1e-3, 1e3);
  read_shear(section, step);
  step.style = read_warp_style(section);
  return {step,
          fmt::format("degrees={} translate={} scale={} shear={},{} {}", text_of(step.degrees),
                      fmt::join(step.translate, ","), text_of(step.scale), text_of(step.shear_x),
                      text_of(step.shear_y), text_of(step.style))};
}

ReadStep read_random_erasing(config::ConfigSection& section) {
  RandomErasing step;
  step.probability = section.number("probability", 0.5, 0, 1);
  step.area = read_range(section, "scale", {0.02, 0.33}, 0, 1);
  step.ratio = read_range(section, "ratio", {0.3, 3.3}, 1e-3, 1e3);
  const std::string head = fmt::format("probability={} scale={} ratio={}", step.probability,
                                       text_of(step.area), text_of(step.ratio));
  const std::vector<std::string> written =
      section.has("value") ? section.texts("value") : std::vector<std::string>{"0"};
  if (written.size() == 1 && written[0] == "random") {
    step.with = RandomErasing::With::random;
  } else if (written.size() == 1 && written[0] == "random_colour") {
    step.with = RandomErasing::With::random_colour;
  } else if (section.has("value")) {
    constexpr std::string_view remedy =
        "write a number, [red, green, blue], random or random_colour";
    const std::vector<double> values = some_numbers(section, "value", -1e6, 1e6, remedy);
    if (values.size() != 1 && values.size() != kChannels)
      section.refuse("value", fmt::format("{} values", values.size()), remedy);
    for (std::size_t c = 0; c < kChannels; ++c)
      step.values[c] = static_cast<float>(values[values.size() == 1 ? 0 : c]);
  }
  if (step.with != RandomErasing::With::values)
    return {step, fmt::format("{} value={}", head, written[0])};
  return {step, fmt::format("{} value={}", head, fmt::join(step.values, ","))};
}

}  // namespace batchflow::prepare
