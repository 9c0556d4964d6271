// What a program reports of samples to its service: scores and exemplars. The last score of each
// sample is kept: a loader reports them to every service that it joins.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/base/sparse_zeros.h"
#include "core/engine/event.h"
#include "runtime/client/batchflow.h"
#include "runtime/client/link.h"

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

// Calls `report` with the link, again until there is room in its ring. `problem`: the message if
// there is no room in time. It answers as the functions of the library do.
using Send =
    std::function<bf_status(const char* problem, const std::function<bool(Link&)>& report)>;

class JobReports {
 public:
  // An empty `send`: the scores are sent with all others, to the next service.
  bf_status report_scores(std::span<const std::uint64_t> keys, const float* scores,
                          std::uint64_t dataset_samples, const Send& send);
  bf_status send_all_scores(const Send& send) const;
  // All that are kept. They stay as they are until the next call.
  void show_scores(const std::uint64_t** keys, const float** scores, std::size_t& count);

  static bf_status send_exemplars(std::span<const SampleId> all, const Send& send);

 private:
  KeptScores kept_;
  std::vector<std::uint64_t> shown_keys_;
  std::vector<float> shown_scores_;
};

}  // namespace batchflow::client
