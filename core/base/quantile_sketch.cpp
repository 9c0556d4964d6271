#include "core/base/quantile_sketch.h"

#include <algorithm>
#include <bit>

#include "core/base/check.h"

namespace batchflow {

namespace {

constexpr int kBits = 6;  // 64 buckets an octave
constexpr std::uint64_t kPerOctave = 1 << kBits;

// Values below 64 have a bucket each; then every octave has 64.
std::size_t bucket_of(std::uint64_t value) {
  if (value < kPerOctave) return static_cast<std::size_t>(value);
  const int shift = static_cast<int>(std::bit_width(value)) - 1 - kBits;
  return static_cast<std::size_t>(kPerOctave * static_cast<unsigned>(shift) + (value >> shift));
}

std::uint64_t middle_of(std::size_t bucket) {
  if (bucket < 2 * kPerOctave) return bucket;
  const int shift = static_cast<int>(bucket / kPerOctave) - 1;
  const std::uint64_t low = (bucket % kPerOctave + kPerOctave) << shift;
  return low + ((std::uint64_t{1} << shift) >> 1);
}

}  // namespace

// Makes counts_ cover `bucket`, and no more: a sketch lives long and grows rarely.
void QuantileSketch::reach(std::size_t bucket) {
  if (counts_.empty()) {
    first_ = bucket;
    counts_.assign(1, 0);
  } else if (bucket < first_) {
    counts_.insert(counts_.begin(), first_ - bucket, 0);
    first_ = bucket;
  } else if (bucket - first_ >= counts_.size()) {
    counts_.resize(bucket - first_ + 1, 0);
  }
}

void QuantileSketch::add(std::uint64_t value, std::uint64_t times) {
  if (times == 0) return;
  const std::size_t bucket = bucket_of(value);
  reach(bucket);
  counts_[bucket - first_] += times;
  count_ += times;
  least_ = std::min(least_, value);
  greatest_ = std::max(greatest_, value);
  sum_ += static_cast<unsigned __int128>(value) * times;
}

void QuantileSketch::merge(const QuantileSketch& other) {
  if (other.count_ == 0) return;
  reach(other.first_);
  reach(other.first_ + other.counts_.size() - 1);
  for (std::size_t i = 0; i < other.counts_.size(); ++i) {
    counts_[other.first_ - first_ + i] += other.counts_[i];
  }
  count_ += other.count_;
  least_ = std::min(least_, other.least_);
  greatest_ = std::max(greatest_, other.greatest_);
  sum_ += other.sum_;
}

std::uint64_t QuantileSketch::quantile(double q) const {
  BF_CHECK(q >= 0 && q <= 1);
  if (count_ == 0) return 0;
  const auto rank = static_cast<std::uint64_t>(q * static_cast<double>(count_ - 1) + 0.5);
  if (rank == 0) return least_;
  if (rank >= count_ - 1) return greatest_;
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    below += counts_[i];
    if (below > rank) return std::clamp(middle_of(first_ + i), least_, greatest_);
  }
  return greatest_;
}

}  // namespace batchflow
