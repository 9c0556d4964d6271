// The memory of the two rings between the service and one rank of a job.
//
// There are two files, one written by the service and one by the job. Both have the same layout:
// what the file's owner writes as the writer of one ring, what it writes as the reader of the other
// ring, and the records of the ring that it writes. The service makes both files and seals them;
// the job can map the service's file only to read it. The third descriptor is the doorbell, an
// eventfd. The service waits for descriptors; when it sleeps, the job writes to the doorbell.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/protocol/descriptor.h"
#include "runtime/protocol/mapping.h"
#include "runtime/protocol/ring.h"

namespace batchflow::protocol {

// The layout of each file. The records follow.
struct RingFileHead {
  alignas(128) RingWriterPage writer;  // of the ring with the records that follow
  alignas(128) RingReaderPage reader;  // of the other ring
  // In the service's file, 1: the service has dropped the rank, and may use again the memory of its
  // batches. Where a service has died this stays 0, and batches that it delivered stay as they are.
  alignas(128) std::atomic<std::uint32_t> revoked;
};
inline constexpr std::size_t kRingRecordsAt = 4096;
static_assert(sizeof(RingFileHead) <= kRingRecordsAt);
inline constexpr Bytes kRingMost = Bytes{1} << 26;

// Both rings, as mapped by one side.
struct Rings {
  Mapping service_file;
  Mapping job_file;

  explicit operator bool() const { return service_file && job_file; }
  RingMemory to_job() const;
  RingMemory from_job() const;
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

// `ring_bytes`: of records in each ring, a power of two from kRingLeast to kRingMost. Empty, with
// the reason in `problem`, where there is no memory for them.
RingFiles make_rings(Bytes ring_bytes, std::string& problem);
// For the job, which trusts neither the files nor the number.
Rings map_rings(const Descriptor& service_file, const Descriptor& job_file, Bytes ring_bytes,
                std::string& problem);

void ring_doorbell(const Descriptor& doorbell);
// Makes the doorbell unreadable again. It never waits, whatever the job has done to the flags of
// the descriptor, which both sides share.
void silence_doorbell(const Descriptor& doorbell);

}  // namespace batchflow::protocol
