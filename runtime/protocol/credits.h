// How many credits a rank may have, by the size of its rings.
#pragma once

#include <cstdint>

#include "core/base/types.h"
#include "runtime/protocol/records.h"

namespace batchflow::protocol {

// The records that credits allow before the service reads them take at most half of the ring.
constexpr std::uint64_t credits_most(Bytes ring_bytes) {
  constexpr std::uint64_t kRecordBytesOfBatch = 3 * (sizeof(JobRecord) + 8);
  return ring_bytes / 4 / kRecordBytesOfBatch;
}

}  // namespace batchflow::protocol
