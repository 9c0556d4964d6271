#include <fmt/format.h>

#include <cmath>

#include "runtime/prepare/step_readers.h"

namespace batchflow::prepare {
namespace {

constexpr std::int64_t kRateMost = 1 << 20;
constexpr std::int64_t kSecondsMost = 24 * 3600;

ReadStep read_cut(config::ConfigSection& section, bool anywhere) {
  section.require("frames", "how many values of each channel a sample gets");
  const CutSound step{
      static_cast<std::uint64_t>(section.integer("frames", 1, 1, std::int64_t{1} << 32)), anywhere};
  return {step, fmt::format("frames={}", step.frames)};
}

}  // namespace

ReadStep read_decode_sound(config::ConfigSection& section) {
  section.require("rate", "write 16000: frames a second, which all get");
  DecodeSound step;
  step.rate = static_cast<std::uint32_t>(section.integer("rate", 1, 1, kRateMost));
  step.channels = static_cast<std::uint32_t>(section.integer("channels", 1, 1, 64));
  step.seconds_most =
      static_cast<std::uint64_t>(section.integer("seconds_most", 600, 1, kSecondsMost));
  if (!audio::has_sound_files())
    section.refuse("step", "this build decodes no sound",
                   fmt::format("install {} and build again", audio::kSoundPackage));
  return {step, fmt::format("rate={} channels={} seconds_most={}", step.rate, step.channels,
                            step.seconds_most)};
}

ReadStep read_cut_sound(config::ConfigSection& section) {
  return read_cut(section, false);
}

ReadStep read_random_cut_sound(config::ConfigSection& section) {
  return read_cut(section, true);
}

// The rate, and what follows from it, is known once the pipeline is compiled.
ReadStep read_mel_spectrogram(config::ConfigSection& section) {
  MelOfSound step;
  audio::MelSettings& mel = step.settings;
  mel.n_fft =
      static_cast<std::uint32_t>(section.integer("n_fft", 400, 2, audio::MelSpectrogram::kFftMost));
  if (mel.n_fft % 2 != 0) section.refuse("n_fft", "it is odd", "write an even number");
  mel.window = static_cast<std::uint32_t>(section.integer("window", mel.n_fft, 1, mel.n_fft));
  mel.hop = static_cast<std::uint32_t>(
      section.integer("hop", std::max(1u, mel.window / 2), 1, audio::MelSpectrogram::kFftMost));
  mel.mels =
      static_cast<std::uint32_t>(section.integer("mels", 128, 1, audio::MelSpectrogram::kMelsMost));
  mel.f_min = section.number("f_min", 0, 0, kRateMost);
  step.f_max_is_given = section.has("f_max");
  mel.f_max = section.number("f_max", 0, 0, kRateMost);
  mel.decibels = section.one_of("scale", {"power", "decibels"}, 0) == 1;
  return {step, fmt::format("n_fft={} window={} hop={} mels={} f_min={} f_max={} scale={}",
                            mel.n_fft, mel.window, mel.hop, mel.mels, mel.f_min, mel.f_max,
                            mel.decibels ? "decibels" : "power")};
}

}  // namespace batchflow::prepare
