// How the memory of a service is divided: staging, scratch of workers, what is set apart for steps
// and for tables of data, and the cache.
#pragma once

#include "core/base/types.h"
#include "runtime/memory/scratch.h"
#include "runtime/service/control/node_config.h"

namespace batchflow::service {

// For blocks, batches and kept samples: what is left beside staging, scratch and the service
// itself.
Bytes cache_bytes(const NodeConfig& config);
// The part of the cache that the engine divides, as the `cache` of a scenario's node is. The rest
// covers what the engine does not count: slabs with slots that no job has, entries of tables, what
// a job has not yet unmapped.
Bytes planned_bytes(const NodeConfig& config);
// The memory that the engine is told of: its part of the cache, and its part of the staging memory.
Bytes engine_bytes(const NodeConfig& config);
// How the scratch is divided.
memory::ScratchLimits scratch_limits(const NodeConfig& config);
// Checks that the sizes of memory in the configuration fit together, on whatever machine. Throws
// ConfigError.
void check_memory(NodeConfig config);
// Replaces settings of 0 by what is left, and checks that it is enough. Throws ConfigError with
// numbers and what to do. `held`: the memory that this service already has; then its staging memory
// stays as it is.
void settle(NodeConfig& config, Bytes held = 0);
// Take memory from the cache. Throw ConfigError if too little of the cache is left.
void set_apart_for_steps(NodeConfig& config, Bytes bytes);
void set_apart_for_data(NodeConfig& config, Bytes bytes);

}  // namespace batchflow::service
