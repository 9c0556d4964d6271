#include "runtime/audio/resample_sound.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace batchflow::audio {
namespace {

constexpr double kCrossings = 6;
constexpr double kCutOff = 0.99;

struct Ratio {
  std::uint64_t from, to, width;
};

Ratio ratio_of(std::uint32_t from, std::uint32_t to) {
  const std::uint32_t common = std::gcd(from, to);
  const std::uint64_t f = from / common, t = to / common;
  const double low = static_cast<double>(std::min(f, t)) * kCutOff;
  return {f, t, static_cast<std::uint64_t>(std::ceil(kCrossings * static_cast<double>(f) / low))};
}

}  // namespace

std::uint64_t SoundResampler::weights(std::uint32_t from, std::uint32_t to) {
  if (from == to) return 0;
  const Ratio ratio = ratio_of(from, to);
  return ratio.to * (2 * ratio.width + ratio.from);
}

SoundResampler::SoundResampler(std::uint32_t from, std::uint32_t to) {
  const Ratio ratio = ratio_of(from, to);
  from_ = ratio.from;
  to_ = ratio.to;
  width_ = ratio.width;
  if (from_ == to_) return;
  const double f = static_cast<double>(from_);
  const double low = std::min(f, static_cast<double>(to_)) * kCutOff;
  const std::uint64_t taps = 2 * width_ + from_;
  weights_.resize(to_ * taps);
  for (std::uint64_t phase = 0; phase < to_; ++phase) {
    // Of this precision there, and so here.
    const float shift = static_cast<float>(phase) / static_cast<float>(to_);
    for (std::uint64_t tap = 0; tap < taps; ++tap) {
      const double frame = (static_cast<double>(tap) - static_cast<double>(width_)) / f;
      const double at =
          std::clamp((frame - static_cast<double>(shift)) * low, -kCrossings, kCrossings);
      const double edge = std::cos(at * std::numbers::pi / kCrossings / 2);
      const double angle = at * std::numbers::pi;
      const double sinc = angle == 0 ? 1 : std::sin(angle) / angle;
      weights_[phase * taps + tap] = static_cast<float>(sinc * edge * edge * low / f);
    }
  }
}

std::uint64_t SoundResampler::frames_after(std::uint64_t frames) const {
  return (frames * to_ + from_ - 1) / from_;
}

void SoundResampler::run(std::span<const float> in, std::span<float> out) const {
  if (from_ == to_) {
    std::copy(in.begin(), in.end(), out.begin());
    return;
  }
  const std::uint64_t taps = 2 * width_ + from_;
  for (std::uint64_t i = 0; i < out.size(); ++i) {
    const float* const weights = weights_.data() + i % to_ * taps;
    // Tap k stands on frame `start` + k; there is silence before and behind the sound.
    const auto start =
        static_cast<std::int64_t>(i / to_ * from_) - static_cast<std::int64_t>(width_);
    const std::int64_t end = start + static_cast<std::int64_t>(taps);
    const std::int64_t first = std::max<std::int64_t>(start, 0);
    const std::int64_t last = std::min<std::int64_t>(end, static_cast<std::int64_t>(in.size()));
    float sum = 0;
    for (std::int64_t frame = first; frame < last; ++frame)
      sum += weights[frame - start] * in[static_cast<std::size_t>(frame)];
    out[i] = sum;
  }
}

}  // namespace batchflow::audio
