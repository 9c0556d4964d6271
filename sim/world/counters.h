// Counts what has happened in a run so far; the sums only grow. Backend and jobs add to them;
// results and reports are made of them. Samples are those of the scenario, at any grain.
#pragma once

#include <cstdint>

#include "core/base/types.h"
#include "sim/world/sim_time.h"

namespace batchflow::world {

struct Counters {
  std::uint64_t storage_reads = 0;  // commands
  Bytes storage_bytes = 0;
  std::uint64_t samples_read = 0;  // from the store
  Bytes nvme_bytes = 0;            // read
  Bytes nvme_written_bytes = 0;
  Bytes gpu_read_bytes = 0;     // of samples that GPUs keep
  Bytes gpu_written_bytes = 0;  // likewise
  Bytes network_bytes = 0;
  Bytes written_bytes = 0;              // checkpoints, to the store
  Bytes restored_bytes = 0;             // and read back from there
  std::uint64_t store_requests = 0;     // operations of reads
  std::uint64_t requests_again = 0;     // that were answered by 503, and sent again
  Bytes pcie_bytes = 0;                 // both ways
  Bytes copied_bytes = 0;               // within a node
  std::uint64_t samples_requested = 0;  // by preparations and lists
  std::uint64_t samples_decoded = 0;    // by preparations, from their encoded form
  std::uint64_t samples_prepared = 0;
  std::uint64_t blocks_prepared = 0;
  TotalTime preparation{0};           // core time of finished preparations
  std::uint64_t batches_trained = 0;  // of one rank each
  std::uint64_t samples_trained = 0;
  std::uint64_t samples_repeated = 0;  // trained on again after a checkpoint; not among these
  std::uint64_t repeats = 0;
  Bytes cancelled_read_bytes = 0;      // of reads that came to nothing
  TotalTime cancelled_preparation{0};  // core time of preparations that came to nothing
  std::uint64_t samples_lost = 0;      // trained on in steps that were never completed
  TotalTime compute{0};                // of all ranks
  TotalTime stall{0};
  TotalTime idle{0};
  TotalTime down{0};

  // What came after `earlier`.
  Counters since(const Counters& earlier) const;
};

inline Counters Counters::since(const Counters& earlier) const {
  Counters rest = *this;
  rest.storage_reads -= earlier.storage_reads;
  rest.storage_bytes -= earlier.storage_bytes;
  rest.samples_read -= earlier.samples_read;
  rest.nvme_bytes -= earlier.nvme_bytes;
  rest.nvme_written_bytes -= earlier.nvme_written_bytes;
  rest.gpu_read_bytes -= earlier.gpu_read_bytes;
  rest.gpu_written_bytes -= earlier.gpu_written_bytes;
  rest.network_bytes -= earlier.network_bytes;
  rest.written_bytes -= earlier.written_bytes;
  rest.restored_bytes -= earlier.restored_bytes;
  rest.store_requests -= earlier.store_requests;
  rest.requests_again -= earlier.requests_again;
  rest.pcie_bytes -= earlier.pcie_bytes;
  rest.copied_bytes -= earlier.copied_bytes;
  rest.samples_requested -= earlier.samples_requested;
  rest.samples_decoded -= earlier.samples_decoded;
  rest.samples_prepared -= earlier.samples_prepared;
  rest.blocks_prepared -= earlier.blocks_prepared;
  rest.preparation -= earlier.preparation;
  rest.batches_trained -= earlier.batches_trained;
  rest.samples_trained -= earlier.samples_trained;
  rest.samples_repeated -= earlier.samples_repeated;
  rest.repeats -= earlier.repeats;
  rest.cancelled_read_bytes -= earlier.cancelled_read_bytes;
  rest.cancelled_preparation -= earlier.cancelled_preparation;
  rest.samples_lost -= earlier.samples_lost;
  rest.compute -= earlier.compute;
  rest.stall -= earlier.stall;
  rest.idle -= earlier.idle;
  rest.down -= earlier.down;
  return rest;
}

}  // namespace batchflow::world
