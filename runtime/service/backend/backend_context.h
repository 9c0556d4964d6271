// What the parts of the backend use of the service.
#pragma once

#include <functional>

#include "core/base/types.h"
#include "runtime/service/backend/memory_budget.h"
#include "runtime/service/backend/peers.h"
#include "runtime/service/backend/stalls.h"
#include "runtime/service/backend/troubles.h"
#include "runtime/service/datasets/datasets.h"
#include "runtime/service/inbox.h"
#include "runtime/service/log/service_log.h"
#include "runtime/service/post.h"

namespace batchflow::service {

struct BackendContext {
  NodeId node;
  Datasets& datasets;
  Inbox& inbox;
  StallBook& stalls;
  Troubles& troubles;
  MemoryBudget& budget;  // of blocks, batches and kept samples, and of the rings of ranks
  Post post;
  Say say;                 // what people should know of
  Peers* peers = nullptr;  // null: there are no other nodes
};

}  // namespace batchflow::service
