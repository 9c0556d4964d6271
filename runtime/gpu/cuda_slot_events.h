// The events of a SlotRing's slots, by CUDA.
#pragma once

#include <memory>

#include "runtime/gpu/slot_ring.h"

namespace batchflow::gpu {

// On the device that is set. Null: the GPU refuses.
std::unique_ptr<SlotEvents> cuda_slot_events(std::size_t slots);

}  // namespace batchflow::gpu
