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
  Bytes network_bytes = 0;
  Bytes written_bytes = 0;  // checkpoints, to the store
  Bytes pcie_bytes = 0;
  Bytes copied_bytes = 0;               // within a node
  std::uint64_t samples_requested = 0;  // by preparations
  std::uint64_t samples_decoded = 0;    // of these, from their encoded form
  std::uint64_t samples_prepared = 0;
  std::uint64_t blocks_prepared = 0;
  TotalTime preparation{0};           // core time of finished preparations
  std::uint64_t batches_trained = 0;  // of one rank each
  std::uint64_t samples_trained = 0;
  std::uint64_t repeats = 0;
  Bytes cancelled_read_bytes = 0;      // of reads that came to nothing
  TotalTime cancelled_preparation{0};  // core time of preparations that came to nothing
  std::uint64_t samples_lost = 0;      // trained on in steps that were never completed
  TotalTime compute{0};                // of all ranks
  TotalTime stall{0};
  TotalTime idle{0};
  TotalTime down{0};
};

}  // namespace batchflow::world
