#include "core/order/keyed_epoch.h"

#include "core/base/check.h"
#include "core/base/random.h"

namespace batchflow::order {

void KeyedEpoch::fill(std::uint64_t first, std::span<Draw> out) {
  for (Draw& draw : out) {
    BF_CHECK(has(first));
    draw = {keys_[first - forgotten_], before_ + first};
    ++first;
  }
}

void KeyedEpoch::forget(std::uint64_t before) {
  for (; forgotten_ < before && !keys_.empty(); ++forgotten_) keys_.pop_front();
}

void KeyedEpoch::begin_next_epoch() {
  BF_CHECK(forgotten_ == kBlocks);
  before_ += kBlocks;
  forgotten_ = 0;
  generation_ = hash(generation_, before_);
}

}  // namespace batchflow::order
