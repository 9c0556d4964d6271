// The memory of the two rings between the service and one rank of a job.
//
// There are two files, one written by the service and one by the job, of the same layout: what its
// owner writes as the writer of one ring, as the reader of the other, and the records of the one it
// writes. The service makes both and seals them; the job can map the service's only to read it. The
// third descriptor is the doorbell, an eventfd: the job writes to it when the service, which reads
// the up ring and waits for descriptors, is asleep.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/protocol/descriptor.h"
#include "runtime/protocol/mapping.h"
#include "runtime/protocol/ring.h"

namespace batchflow {

// The layout of each file. The records follow.
struct RingFileHead {
  alignas(128) RingWriterPage writer;  // of the ring whose records follow
  alignas(128) RingReaderPage reader;  // of the other ring
  // In the service's file: it lives and the rank is its no longer, so that memory the rank could
  // read is used again. A service that died has not said so, and what it had delivered stays as it
  // is.
  alignas(128) std::atomic<std::uint32_t> revoked;
};
inline constexpr std::size_t kRingRecordsAt = 4096;
static_assert(sizeof(RingFileHead) <= kRingRecordsAt);
inline constexpr Bytes kRingMost = Bytes{1} << 26;

// Both rings as one side has them mapped.
struct Rings {
  Mapping service_file;
  Mapping job_file;

  explicit operator bool() const { return service_file && job_file; }
  RingMemory down() const;
  RingMemory up() const;
  std::atomic<std::uint32_t>& revoked() const;
};

struct RingFiles {
  Rings rings;  // for the service
  // For the job, in this order.
  Descriptor service_file;
  Descriptor job_file;
  Descriptor doorbell;

  explicit operator bool() const { return static_cast<bool>(doorbell); }
};

// `ring_bytes` of records each way: a power of two from kRingLeast to kRingMost. Without memory for
// them the reason is in `problem`.
RingFiles make_rings(Bytes ring_bytes, std::string& problem);
// The job's side, which trusts neither the files nor the number.
Rings map_rings(const Descriptor& service_file, const Descriptor& job_file, Bytes ring_bytes,
                std::string& problem);

void ring_doorbell(const Descriptor& doorbell);
// Makes it unreadable again. Never waits, whatever the job has done to the descriptor, whose flags
// both sides share.
void silence_doorbell(const Descriptor& doorbell);

}  // namespace batchflow
