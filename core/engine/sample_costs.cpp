#include "core/engine/sample_costs.h"

#include <algorithm>

namespace batchflow::engine {

namespace {

constexpr double square(double value) {
  return value * value;
}

// Relative to what is measured: a part's time beside the mean of such parts, how far costs move
// from part to part, and what is known before the first.
constexpr double kNoise = 0.1;
constexpr double kDrift = 0.005;
constexpr double kDoubt = 0.5;
constexpr double kDecodedGuess = 0.5;  // of the other cost
// A part that took far longer says little of costs: its worker was stopped, or the node was busy.
constexpr double kTimesLonger = 4;

}  // namespace

void SampleCosts::add(double encoded, double decoded, double seconds) {
  if (!measured()) {
    const double each = seconds / (encoded + kDecodedGuess * decoded);
    encoded_s_ = each;
    decoded_s_ = kDecodedGuess * each;
    encoded_var_ = decoded_var_ = square(kDoubt * each);
    covariance_ = 0;
    return;
  }
  const double expected = encoded * encoded_s_ + decoded * decoded_s_;
  seconds = std::min(seconds, kTimesLonger * expected);
  const double drift = square(kDrift * encoded_s_);
  encoded_var_ += drift;
  decoded_var_ += drift;
  // How the measured time varies with each cost, and with all that is uncertain.
  const double by_encoded = encoded_var_ * encoded + covariance_ * decoded;
  const double by_decoded = covariance_ * encoded + decoded_var_ * decoded;
  const double variance =
      encoded * by_encoded + decoded * by_decoded + square(kNoise * std::max(expected, seconds));
  if (!(variance > 0)) return;
  const double surprise = (seconds - expected) / variance;
  encoded_s_ = std::max(encoded_s_ + by_encoded * surprise, 0.01 * encoded_s_);
  decoded_s_ = std::clamp(decoded_s_ + by_decoded * surprise, 0.0, encoded_s_);
  encoded_var_ -= square(by_encoded) / variance;
  decoded_var_ -= square(by_decoded) / variance;
  covariance_ -= by_encoded * by_decoded / variance;
}

}  // namespace batchflow::engine
