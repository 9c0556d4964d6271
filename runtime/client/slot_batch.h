// A batch in a slot of the service's memory: checked, and shown to the program in place or copied.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "runtime/client/batchflow.h"
#include "runtime/client/held_batches.h"
#include "runtime/protocol/messages.h"
#include "runtime/protocol/records.h"

namespace batchflow::client {

// Whether the batch lies in the slab's memory, as far as programs and copies read it.
bool lies_in(std::span<const std::byte> memory, const batch::BlockLayout& layout,
             const protocol::BatchRecord& record);
// Shows the samples where they are.
std::unique_ptr<HeldBatch> batch_in_place(const batch::BlockLayout& layout,
                                          std::shared_ptr<const Slab> slab,
                                          const protocol::BatchRecord& record, bf_batch& batch);
// Copies the samples out of the slot, and shows the copy, which is laid out as `to`.
std::unique_ptr<HeldBatch> batch_copied(const batch::BlockLayout& from, const std::byte* slot,
                                        const batch::BlockLayout& to,
                                        const protocol::BatchRecord& record, bf_batch& batch);

}  // namespace batchflow::client
