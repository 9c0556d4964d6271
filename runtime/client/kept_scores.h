// The scores that a loader was told, the last of each sample: every service it comes to is told
// them.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "core/event.h"
#include "core/zero_array.h"

namespace batchflow {

class KeptScores {
 public:
  void keep(const Score& score, std::uint64_t samples) {
    scores_.grow(samples);
    scores_[score.sample.value] = std::bit_cast<std::uint32_t>(score.value) ^ kNone;
  }
  // The next of them, by ascending sample, at most `most`; `from` is behind them then.
  std::vector<Score> next(std::uint64_t& from, std::size_t most) const {
    std::vector<Score> some;
    for (; from < scores_.size() && some.size() < most; ++from) {
      if (scores_[from] == 0) continue;
      some.push_back({SampleId(from), std::bit_cast<float>(scores_[from] ^ kNone)});
    }
    return some;
  }

 private:
  static constexpr std::uint32_t kNone = 0x7fc00000;  // not a number, which no score is
  ZeroArray<std::uint32_t> scores_;                   // its bits, so changed that none is 0
};

}  // namespace batchflow
