// The slots of blocks and gathered batches, and what each share's slots are for.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "core/base/types.h"
#include "runtime/service/backend/backend_context.h"
#include "runtime/service/backend/kept_samples.h"
#include "runtime/service/backend/slot_memory.h"

namespace batchflow::service {

class BlockSlots {
 public:
  struct Use {
    PipelineId pipeline;
    std::uint32_t samples = 0;   // of a slot
    std::uint64_t audience = 0;  // names the dataset, pipeline and seed
  };

  // `gone` is called for a slab that no later slot will be in.
  BlockSlots(const BackendContext& context, KeptSamples& kept,
             std::function<void(std::uint64_t slab)> gone)
      : context_(context), kept_(kept), slots_(context.budget, std::move(gone)) {}

  // Empty: there is no memory for it now.
  std::optional<Slot> take(ShareId share, SlotId slot, const Use& use);
  void free(ShareId share, SlotId slot) { slots_.free(share, slot); }
  // Gives back empty slabs until that much of the budget is left, if that helps.
  void make_room(Bytes bytes) { slots_.make_room(bytes); }
  // For each second.
  void give_back_unused() { slots_.give_back_unused(); }

  // Null if the slot has no memory.
  const Slot* find(ShareId share, SlotId slot) const { return slots_.find(share, slot); }
  // Null if the share never had a slot.
  const Use* use_of(ShareId share) const;
  const SlotMemory& memory() const { return slots_; }

 private:
  const BackendContext& context_;
  KeptSamples& kept_;
  SlotMemory slots_;
  std::map<std::uint32_t, Use> uses_;  // by share
};

}  // namespace batchflow::service
