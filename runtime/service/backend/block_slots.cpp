#include "runtime/service/backend/block_slots.h"

namespace batchflow::service {

std::optional<Slot> BlockSlots::take(ShareId share, SlotId slot, const Use& use) {
  constexpr int kTries = 8;  // workers may keep what has just been dropped for this
  uses_[share.value] = use;
  const Bytes bytes = context_.datasets.pipeline(use.pipeline).layout(use.samples)->bytes;
  std::optional<Slot> taken = slots_.take(share, slot, bytes, use.audience);
  for (int i = 0; !taken && i < kTries && kept_.drop_decoded(bytes); ++i)
    taken = slots_.take(share, slot, bytes, use.audience);
  return taken;
}

const BlockSlots::Use* BlockSlots::use_of(ShareId share) const {
  const auto found = uses_.find(share.value);
  return found == uses_.end() ? nullptr : &found->second;
}

}  // namespace batchflow::service
