// A node's memory for blocks, batches and kept samples. On a node of a cluster it outlives each
// coordinator: what is kept as it is stored is put aside, and the next engine hears of it.
#pragma once

#include "runtime/service/backend/item_store.h"
#include "runtime/service/backend/memory_budget.h"

namespace batchflow::service {

struct CacheMemory {
  explicit CacheMemory(Bytes most) : budget(most) {}
  MemoryBudget budget;  // jobs hold parts of it, and outlive a backend
  ItemStore items{budget};
};

}  // namespace batchflow::service
