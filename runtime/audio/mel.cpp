#include "runtime/audio/mel.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <unsupported/Eigen/FFT>
#include <vector>

namespace batchflow::audio {
namespace {

double mel_of(double hertz) {
  return 2595 * std::log10(1 + hertz / 700);
}
double hertz_of(double mel) {
  return 700 * (std::pow(10, mel / 2595) - 1);
}

// The triangle of one mel: weights of frequencies from `first` on.
struct Triangle {
  std::size_t first = 0;
  std::vector<float> weights;
};

std::vector<Triangle> triangles_of(const MelSettings& settings) {
  const std::size_t frequencies = settings.n_fft / 2 + 1;
  const double step = static_cast<double>(settings.rate / 2) / static_cast<double>(frequencies - 1);
  const double low = mel_of(settings.f_min), high = mel_of(settings.f_max);
  std::vector<double> points(settings.mels + 2);
  for (std::size_t i = 0; i < points.size(); ++i)
    points[i] = hertz_of(low + (high - low) * static_cast<double>(i) /
                                   static_cast<double>(points.size() - 1));
  std::vector<Triangle> all(settings.mels);
  for (std::size_t mel = 0; mel < all.size(); ++mel) {
    const double from = points[mel], top = points[mel + 1], to = points[mel + 2];
    for (std::size_t i = 0; i < frequencies; ++i) {
      const double hertz = step * static_cast<double>(i);
      const double weight = std::min((hertz - from) / (top - from), (to - hertz) / (to - top));
      if (!(weight > 0)) continue;
      if (all[mel].weights.empty()) all[mel].first = i;
      all[mel].weights.push_back(static_cast<float>(weight));
    }
  }
  return all;
}

// The frame at `at` of a sound that is mirrored at both ends.
std::size_t mirrored(std::int64_t at, std::size_t frames) {
  const auto last = static_cast<std::int64_t>(frames) - 1;
  if (at < 0) at = -at;
  if (at > last) at = 2 * last - at;
  return static_cast<std::size_t>(at);
}

}  // namespace

struct MelSpectrogram::Parts {
  MelSettings settings;
  std::vector<float> window;
  std::vector<Triangle> triangles;
  Eigen::FFT<float> fft;
  std::vector<float> frame;
  std::vector<std::complex<float>> spectrum;
  std::vector<float> power;
};

MelSpectrogram::MelSpectrogram(const MelSettings& settings) : parts_(std::make_unique<Parts>()) {
  parts_->settings = settings;
  parts_->triangles = triangles_of(settings);
  parts_->fft.SetFlag(Eigen::FFT<float>::HalfSpectrum);
  parts_->frame.resize(settings.n_fft);
  parts_->power.resize(settings.n_fft / 2 + 1);
  parts_->window.assign(settings.n_fft, 0);
  const std::size_t before = (settings.n_fft - settings.window) / 2;
  for (std::size_t i = 0; i < settings.window; ++i)
    parts_->window[before + i] =
        static_cast<float>(0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) /
                                                static_cast<double>(settings.window)));
}

MelSpectrogram::~MelSpectrogram() = default;

Bytes MelSpectrogram::needs(const MelSettings& settings) {
  // Its buffers, the tables of the transform, and each frequency's weight in two triangles.
  return Bytes{64} * settings.n_fft + Bytes{64} * settings.mels;
}

void MelSpectrogram::run(std::span<const float> in, std::span<float> out) {
  Parts& p = *parts_;
  const MelSettings& settings = p.settings;
  const std::uint64_t columns = MelSpectrogram::columns(settings, in.size());
  for (std::uint64_t column = 0; column < columns; ++column) {
    const auto start = static_cast<std::int64_t>(column * settings.hop) -
                       static_cast<std::int64_t>(settings.n_fft / 2);
    for (std::size_t i = 0; i < settings.n_fft; ++i)
      p.frame[i] = in[mirrored(start + static_cast<std::int64_t>(i), in.size())] * p.window[i];
    p.fft.fwd(p.spectrum, p.frame);
    for (std::size_t i = 0; i < p.power.size(); ++i) p.power[i] = std::norm(p.spectrum[i]);
    for (std::size_t mel = 0; mel < p.triangles.size(); ++mel) {
      const Triangle& triangle = p.triangles[mel];
      float sum = 0;
      for (std::size_t i = 0; i < triangle.weights.size(); ++i)
        sum += triangle.weights[i] * p.power[triangle.first + i];
      if (settings.decibels) sum = 10 * std::log10(std::max(sum, 1e-10F));
      out[mel * columns + column] = sum;
    }
  }
}

}  // namespace batchflow::audio
