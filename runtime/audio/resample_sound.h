// Gives a sound another number of frames a second, as torchaudio.functional.resample does with its
// defaults: a sinc of six zero crossings on each side below a squared cosine, cut off at 0.99 of
// the lower half rate.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace batchflow::audio {

class SoundResampler {
 public:
  // REQUIRES: both are above 0
  SoundResampler(std::uint32_t from, std::uint32_t to);

  // How many weights its table has, one float each; rates without a common divisor take very many.
  static std::uint64_t weights(std::uint32_t from, std::uint32_t to);
  static constexpr std::uint64_t kWeightsMost = std::uint64_t{1} << 22;

  std::uint64_t frames_after(std::uint64_t frames) const;
  // REQUIRES: out.size() == frames_after(in.size())
  void run(std::span<const float> in, std::span<float> out) const;

 private:
  std::uint64_t from_, to_;     // without their common divisor
  std::uint64_t width_;         // frames that count before and behind
  std::vector<float> weights_;  // for each of `to_` frames, 2 width_ + from_
};

}  // namespace batchflow::audio
