// Quantiles of any number of integers in bounded memory.
//
// A value falls into one of 64 equal buckets of its octave, so a quantile is off by at most one
// part in 128 of itself. Values below 128 are exact, and so are least, greatest, count and sum.
// There are at most 3776 buckets of 8 bytes. All arithmetic is integer: merging in any order, or on
// any machine, gives the same answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace batchflow {

class QuantileSketch {
 public:
  static constexpr double kRelativeErrorMax = 1.0 / 128;
  static constexpr std::size_t kBucketsMost = 3776;

  void add(std::uint64_t value, std::uint64_t times = 1);
  void merge(const QuantileSketch& other);
  void clear() { *this = QuantileSketch(); }

  std::uint64_t count() const { return count_; }
  std::uint64_t least() const { return count_ ? least_ : 0; }
  std::uint64_t greatest() const { return greatest_; }
  double mean() const {
    return count_ ? static_cast<double>(sum_) / static_cast<double>(count_) : 0;
  }

  // The value at the rank nearest to q * (count - 1); 0 when there is none. REQUIRES: 0 <= q <= 1
  std::uint64_t quantile(double q) const;
  std::size_t memory_bytes() const { return counts_.capacity() * sizeof(std::uint64_t); }

 private:
  void reach(std::size_t bucket);

  std::size_t first_ = 0;              // the bucket counts_[0] counts
  std::vector<std::uint64_t> counts_;  // of the buckets between least and greatest
  std::uint64_t count_ = 0;
  std::uint64_t least_ = UINT64_MAX;
  std::uint64_t greatest_ = 0;
  unsigned __int128 sum_ = 0;
};

}  // namespace batchflow
