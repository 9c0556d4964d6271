// How an encoded sound becomes a field of the batch: decoded, mixed, at one rate, cut, and perhaps
// a spectrogram.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/audio/mel.h"
#include "runtime/audio/resample_sound.h"
#include "runtime/audio/sound_file.h"
#include "runtime/batch/batch_spec.h"

namespace batchflow::prepare {

struct DecodeSound {
  std::uint32_t rate = 0;          // frames a second of what it makes
  std::uint32_t channels = 1;      // 1: the mean of all; else a sound must have as many
  std::uint64_t seconds_most = 0;  // a longer sound is refused
};
struct CutSound {
  std::uint64_t frames = 0;  // that all have; a shorter sound is followed by silence
  bool anywhere = false;     // else from its beginning
};

struct SoundPlan {
  DecodeSound decode;
  std::optional<CutSound> cut;
  std::uint32_t cut_draw = 0;
  std::optional<audio::MelSettings> mel;

  std::uint64_t frames_most() const { return decode.rate * decode.seconds_most; }
};

// For one thread.
class SoundWorker {
 public:
  // Reads the header. False: see problem().
  bool open(const SoundPlan& plan, std::span<const std::byte> bytes);
  // What the sound takes at most. REQUIRES: open() was the last call and said true
  Bytes needs(const SoundPlan& plan) const;
  // Makes row `index` of field `at` of `out`, which is `field`. REQUIRES: as needs()
  bool write(const SoundPlan& plan, std::uint64_t draw_key, const batch::Field& field,
             const batch::BlockWriter& out, std::size_t at, std::uint32_t index);
  const std::string& problem() const { return problem_; }

  Bytes held() const { return (read_.capacity() + made_.capacity()) * sizeof(float); }
  void drop();

 private:
  bool fail(std::string problem);
  const audio::SoundResampler& resampler(std::uint32_t to);

  audio::SoundFile file_;
  std::vector<float> read_, made_;
  // By the rates that they convert from and to; and the spectrogram of the last pipeline.
  std::map<std::pair<std::uint32_t, std::uint32_t>, audio::SoundResampler> resamplers_;
  std::optional<audio::MelSettings> settings_;
  std::unique_ptr<audio::MelSpectrogram> mel_;
  std::string problem_;
};

}  // namespace batchflow::prepare
