// What the backend of a node has done since it began, as an agent reports it every second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/types.h"
#include "runtime/service/backend/reports.h"

namespace batchflow::service {

// What a node has asked of another one.
struct LinkTraffic {
  std::uint32_t node = 0;
  Bytes bytes = 0;
  std::uint64_t busy_ns = 0;  // from each request to the end of its answer, added up
};

struct NodeCounters {
  std::uint64_t read_samples = 0;
  Bytes read_bytes = 0;  // from the store
  std::uint64_t read_errors = 0;
  std::uint64_t fetched_samples = 0;  // from the memory of other nodes
  Bytes fetched_bytes = 0;
  std::uint64_t store_busy_ns = 0;  // in which anything was read from the store
  std::uint64_t fetching_ns = 0;    // or fetched
  std::uint64_t prepared_samples = 0;
  std::uint64_t decoded_hits = 0;  // of these, from their decoded form
  std::uint64_t copied_samples = 0;
  std::uint64_t preparing_ns = 0;  // of all workers
  std::uint64_t workers = 0;       // now
  Bytes used_bytes = 0;            // now
  Bytes spill_bytes = 0;           // now, of its drive
  Bytes spill_read_bytes = 0;
  Bytes spill_written_bytes = 0;
  std::uint64_t spill_missed = 0;  // samples that should have been there
  std::vector<LinkTraffic> links;
  std::vector<StepTally> steps;

  // visit("name", field) for each that is a number.
  template <class Self, class Visit>
  static void each(Self& self, Visit&& visit) {
    visit("read_samples", self.read_samples);
    visit("read_bytes", self.read_bytes);
    visit("read_errors", self.read_errors);
    visit("fetched_samples", self.fetched_samples);
    visit("fetched_bytes", self.fetched_bytes);
    visit("store_busy_ns", self.store_busy_ns);
    visit("fetching_ns", self.fetching_ns);
    visit("prepared_samples", self.prepared_samples);
    visit("decoded_hits", self.decoded_hits);
    visit("copied_samples", self.copied_samples);
    visit("preparing_ns", self.preparing_ns);
    visit("workers", self.workers);
    visit("used_bytes", self.used_bytes);
    visit("spill_bytes", self.spill_bytes);
    visit("spill_read_bytes", self.spill_read_bytes);
    visit("spill_written_bytes", self.spill_written_bytes);
    visit("spill_missed", self.spill_missed);
  }
};

// An agent, as its coordinator sees it.
struct NodeStatus {
  std::uint32_t node = 0;
  std::string name, address, version;
  std::uint32_t cores = 0;
  Bytes memory = 0;       // that the engine divides
  Bytes drive = 0;        // the same of its drive (--spill)
  std::size_t ranks = 0;  // connections of jobs
  bool ready = false;     // else it still opens datasets
  NodeCounters counters;
};

}  // namespace batchflow::service
