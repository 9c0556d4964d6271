#include "tests/driver/buffer_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/random.h"
#include "tests/driver/machine.h"

namespace batchflow::test {

std::vector<SampleId> BufferCheck::smallest() const {
  std::vector<SampleId> all;
  for (const auto& [number, sample] : had_) {
    if (all.size() == exemplars_most_) break;
    all.emplace_back(sample);
  }
  std::sort(all.begin(), all.end());
  return all;
}

void BufferCheck::began(bool anew) {
  if (anew && !had_.empty()) is_known_ = false;
  exemplars_ = smallest();
  round_.clear();
}

void BufferCheck::had(SampleId sample) {
  had_.emplace(hash(13, version_, buffer_, sample.value), sample.value);
}

void BufferCheck::rehearsed(const std::vector<SampleId>& draws) {
  if (!is_known_) return;
  if (draws.empty() != exemplars_.empty())
    violated(
        fmt::format("{} samples are rehearsed of {} exemplars", draws.size(), exemplars_.size()));
  for (const SampleId sample : draws) {
    if (drawn_ % exemplars_.size() == 0) round_.clear();
    ++drawn_;
    ++checked_;
    if (!std::binary_search(exemplars_.begin(), exemplars_.end(), sample))
      violated(
          fmt::format("sample {} is rehearsed, and the buffer does not have it", sample.value));
    if (!round_.insert(sample).second)
      violated(fmt::format("sample {} is rehearsed twice in a round", sample.value));
  }
}

void BufferCheck::end_epoch() {
  exemplars_ = smallest();
  drawn_ = 0;
  round_.clear();
}

}  // namespace batchflow::test
