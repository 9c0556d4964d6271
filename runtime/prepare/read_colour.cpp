// The parameters of steps that change colours.
#include <algorithm>
#include <string>

#include "runtime/prepare/step_readers.h"

namespace batchflow::prepare {
namespace {

using Kind = PointChange::Kind;

// `text`: of the change's own parameters.
ReadStep read_change(config::ConfigSection& section, const PointChange& change,
                     double probability = 0.5, const std::string& text = "") {
  const RandomPointChange step{change, section.number("probability", probability, 0, 1)};
  return {step, fmt::format("{}probability={}", text, step.probability)};
}

int read_reach(config::ConfigSection& section, std::string_view text, std::string_view remedy) {
  const auto size = parse_unsigned(text);
  if (!size || *size % 2 == 0 || *size > 2 * kReachMost + 1)
    section.refuse(
        "kernel_size",
        fmt::format("'{}' is no odd number from 1 to {}", text.substr(0, 40), 2 * kReachMost + 1),
        remedy);
  return static_cast<int>(*size / 2);
}

}  // namespace

ReadStep read_colour_jitter(config::ConfigSection& section) {
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
      values = read_range(section, names[i], {middle, middle}, least, most);
    } else {
      const double reach = section.number(names[i], 0, 0, most);
      values = {std::max(least, middle - reach), middle + reach};
    }
    text += fmt::format("{}{}={}..{}", i > 0 ? " " : "", names[i], values.least, values.most);
  }
  return {step, text};
}

ReadStep read_greyscale(config::ConfigSection&) {
  return {RandomPointChange{{Kind::greyscale}, 1}, ""};
}

ReadStep read_random_greyscale(config::ConfigSection& section) {
  return read_change(section, {Kind::greyscale}, 0.1);
}

ReadStep read_gaussian_blur(config::ConfigSection& section) {
  constexpr std::string_view remedy = "write an odd number, as 5, or [across, down]";
  section.require("kernel_size", remedy);
  const std::vector<std::string> sizes = section.texts("kernel_size");
  if (sizes.size() != 1 && sizes.size() != 2)
    section.refuse("kernel_size", fmt::format("{} values", sizes.size()), remedy);
  GaussianBlur step;
  step.reach = {read_reach(section, sizes.front(), remedy),
                read_reach(section, sizes.back(), remedy)};
  if (section.has("sigma") && section.texts("sigma").size() == 1) {
    const double sigma = section.number("sigma", 0, 1e-3, 1e3);
    step.sigma = {sigma, sigma};
  } else {
    step.sigma = read_range(section, "sigma", {0.1, 2.0}, 1e-3, 1e3);
  }
  return {step, fmt::format("reach={},{} sigma={}..{}", step.reach.width, step.reach.height,
                            step.sigma.least, step.sigma.most)};
}

ReadStep read_sharpness(config::ConfigSection& section) {
  section.require("factor", "write 0 for a smoothed picture, 1 for no change, 2 for a sharper one");
  RandomSharpness step;
  step.sharpening.factor = static_cast<float>(section.number("factor", 1, 0, 100));
  step.probability = section.number("probability", 0.5, 0, 1);
  return {step, fmt::format("factor={} probability={}", step.sharpening.factor, step.probability)};
}

ReadStep read_invert(config::ConfigSection& section) {
  return read_change(section, {Kind::invert});
}

ReadStep read_posterize(config::ConfigSection& section) {
  section.require("bits", "write how many bits of a value stay, as 4");
  const auto bits = static_cast<double>(section.integer("bits", 8, 0, 8));
  return read_change(section, {Kind::posterize, bits}, 0.5, fmt::format("bits={} ", bits));
}

ReadStep read_solarize(config::ConfigSection& section) {
  section.require("threshold", "write from which value on values are inverted, as 128");
  const double threshold = section.number("threshold", 0, 0, 256);
  return read_change(section, {Kind::solarize, threshold}, 0.5,
                     fmt::format("threshold={} ", threshold));
}

ReadStep read_autocontrast(config::ConfigSection& section) {
  return read_change(section, {Kind::autocontrast});
}

ReadStep read_equalize(config::ConfigSection& section) {
  return read_change(section, {Kind::equalize});
}

}  // namespace batchflow::prepare
