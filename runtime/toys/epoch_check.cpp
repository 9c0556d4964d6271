#include "runtime/toys/epoch_check.h"

#include <fmt/format.h>

namespace batchflow::toys {

std::string EpochCheck::add(const bf_batch& batch) {
  const std::lock_guard lock(mutex_);
  Epoch& epoch = epochs_[batch.epoch];
  epoch.had.resize(samples_);
  std::string wrong;
  for (std::uint32_t i = 0; i < batch.samples; ++i) {
    if ((batch.marks[i] & (BF_MARK_FILLER | BF_MARK_REHEARSED)) != 0) continue;
    const std::uint64_t sample = batch.wanted[i];  // another sample may replace it
    if (sample >= samples_) {
      wrong = fmt::format("sample {} of {} was delivered", sample, samples_);
    } else if (epoch.had[sample]) {
      wrong = fmt::format("sample {} was delivered twice in epoch {}", sample, batch.epoch);
    } else {
      epoch.had[sample] = true;
      ++epoch.count;
    }
  }
  if (batch.last_of_epoch != 0 && ++epoch.ranks_through == ranks_) {
    if (whole_ && wrong.empty() && epoch.count != samples_)
      wrong = fmt::format("{} of {} samples were delivered in epoch {}", epoch.count, samples_,
                          batch.epoch);
    epochs_.erase(batch.epoch);
  }
  return wrong;
}

}  // namespace batchflow::toys
