// Spectrograms on the mel scale, as torchaudio.transforms.MelSpectrogram makes them with `center`,
// reflection at the ends, a periodic Hann window, the scale of HTK and triangles without norm.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/base/types.h"

namespace batchflow::audio {

struct MelSettings {
  std::uint32_t rate = 16000;
  std::uint32_t n_fft = 400;
  std::uint32_t window = 400;
  std::uint32_t hop = 200;
  std::uint32_t mels = 128;
  double f_min = 0;
  double f_max = 8000;
  bool decibels = false;  // 10 log10 of at least 1e-10, in place of the power

  friend bool operator==(const MelSettings&, const MelSettings&) = default;
};

// For one thread.
class MelSpectrogram {
 public:
  static constexpr std::uint32_t kFftMost = 1 << 16;
  static constexpr std::uint32_t kMelsMost = 1 << 10;

  explicit MelSpectrogram(const MelSettings& settings);
  ~MelSpectrogram();

  // A sound must have more than `n_fft` / 2 frames.
  static std::uint64_t columns(const MelSettings& settings, std::uint64_t frames) {
    return 1 + frames / settings.hop;
  }
  static Bytes needs(const MelSettings& settings);
  // [mels, columns]. REQUIRES: in.size() > n_fft / 2, and `out` has room
  void run(std::span<const float> in, std::span<float> out);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace batchflow::audio
