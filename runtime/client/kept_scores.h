// The last score that a program reported for each sample. A loader reports them to every service
// that it joins.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "core/base/sparse_zeros.h"
#include "core/engine/event.h"

namespace batchflow::client {

class KeptScores {
 public:
  void keep(const engine::Score& score, std::uint64_t samples) {
    samples_ = std::max(samples_, samples);
    scores_.at(score.sample.value) = std::bit_cast<std::uint32_t>(score.value) ^ kNone;
  }
  // The scores of samples from `from` on, by ascending sample, at most `most` of them. `from`
  // becomes the sample to go on with.
  std::vector<engine::Score> next(std::uint64_t& from, std::size_t most) const {
    std::vector<engine::Score> found;
    for (; from < samples_ && found.size() < most; ++from) {
      const std::uint32_t bits = scores_.at(from);
      if (bits == 0) continue;
      found.push_back({SampleId(from), std::bit_cast<float>(bits ^ kNone)});
    }
    return found;
  }

 private:
  static constexpr std::uint32_t kNone = 0x7fc00000;  // the bits of NaN, which no score is
  SparseZeros<std::uint32_t> scores_;                 // bits of scores XOR kNone; 0: no score
  std::uint64_t samples_ = 0;
};

}  // namespace batchflow::client
