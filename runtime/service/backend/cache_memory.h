// A node's memory for blocks, batches and kept samples, and its drive. On a node of a cluster both
// outlive each coordinator: samples that are kept are put aside, and the next engine hears of them.
#pragma once

#include <memory>

#include "runtime/service/backend/item_store.h"
#include "runtime/service/backend/memory_budget.h"
#include "runtime/service/backend/spill.h"

namespace batchflow::service {

struct CacheMemory {
  explicit CacheMemory(Bytes most) : budget(most) {}
  // The drive that these options ask for: the one from before, if it can still be used. Null: they
  // ask for none. Throws ConfigError when it cannot be made.
  Spill* drive(const SpillOptions& options) {
    if (options.path.empty()) return nullptr;
    if (!spill || !spill->is_still(options)) {
      spill.reset();
      spill = std::make_unique<Spill>(options, budget);
    }
    return spill.get();
  }

  MemoryBudget budget;  // jobs hold parts of it, and outlive a backend
  ItemStore items{budget};
  std::unique_ptr<Spill> spill;
};

}  // namespace batchflow::service
