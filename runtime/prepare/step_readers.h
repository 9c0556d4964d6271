// Reads the parameters of steps: what is common to several, and the steps that change pictures.
// Each throws ConfigError. steps.cpp lists all steps.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "programs/config/config.h"
#include "runtime/prepare/steps.h"

namespace batchflow::prepare {

struct ReadStep {
  StepKind kind;
  std::string parameters;  // for the step's text
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

Range read_range(config::ConfigSection& section, std::string_view key, const Range& fallback,
                 double least, double most);
// From 1 on.
std::vector<std::uint64_t> whole_numbers(config::ConfigSection& section, std::string_view key,
                                         std::uint64_t most, std::string_view remedy);

// Of size and place.
ReadStep read_resize(config::ConfigSection& section);
ReadStep read_centre_crop(config::ConfigSection& section);
ReadStep read_random_resized_crop(config::ConfigSection& section);
ReadStep read_random_crop(config::ConfigSection& section);
ReadStep read_pad(config::ConfigSection& section);
ReadStep read_horizontal_flip(config::ConfigSection& section);
ReadStep read_vertical_flip(config::ConfigSection& section);
ReadStep read_random_rotation(config::ConfigSection& section);
ReadStep read_random_affine(config::ConfigSection& section);
ReadStep read_random_erasing(config::ConfigSection& section);

// Of colour.
ReadStep read_colour_jitter(config::ConfigSection& section);
ReadStep read_greyscale(config::ConfigSection& section);
ReadStep read_random_greyscale(config::ConfigSection& section);
ReadStep read_gaussian_blur(config::ConfigSection& section);
ReadStep read_sharpness(config::ConfigSection& section);
ReadStep read_invert(config::ConfigSection& section);
ReadStep read_posterize(config::ConfigSection& section);
ReadStep read_solarize(config::ConfigSection& section);
ReadStep read_autocontrast(config::ConfigSection& section);
ReadStep read_equalize(config::ConfigSection& section);

// Of sound.
ReadStep read_decode_sound(config::ConfigSection& section);
ReadStep read_cut_sound(config::ConfigSection& section);
ReadStep read_random_cut_sound(config::ConfigSection& section);
ReadStep read_mel_spectrogram(config::ConfigSection& section);

// Of video.
ReadStep read_clip(config::ConfigSection& section);
ReadStep read_random_clip(config::ConfigSection& section);

// Of choices among changes.
ReadStep read_rand_augment(config::ConfigSection& section);
ReadStep read_trivial_augment(config::ConfigSection& section);
ReadStep read_auto_augment(config::ConfigSection& section);
ReadStep read_random_apply(config::ConfigSection& section, int depth);
ReadStep read_random_choice(config::ConfigSection& section, int depth);

// `interpolation` and `fill` of a step that warps, and their text.
WarpStyle read_warp_style(config::ConfigSection& section);
std::string text_of(const WarpStyle& style);

}  // namespace batchflow::prepare
