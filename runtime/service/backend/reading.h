// One read of the backend: its samples, and where their bytes are once they are there.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/engine/event.h"
#include "runtime/service/backend/busy_time.h"
#include "runtime/service/backend/memory_budget.h"
#include "runtime/sources/sample_index.h"

namespace batchflow::service {

// Pages of this process's own for one read, given back to the machine with it. They are for reads
// that find no run of the storage engine's staging memory that is long enough.
class OwnPages {
 public:
  OwnPages() = default;
  // Empty if the machine has none. The engine has counted them: they are charged as far as the
  // budget has room, and exist even beyond that.
  OwnPages(MemoryBudget& budget, Bytes bytes) : charge_(budget, bytes), bytes_(bytes) {
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) memory_ = static_cast<std::byte*>(memory);
  }
  OwnPages(OwnPages&& other) noexcept
      : charge_(std::move(other.charge_)),
        memory_(std::exchange(other.memory_, nullptr)),
        bytes_(other.bytes_) {}
  OwnPages& operator=(OwnPages&& other) noexcept {
    std::swap(charge_, other.charge_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~OwnPages() {
    if (memory_ != nullptr) ::munmap(memory_, bytes_);
  }

  std::byte* memory() const { return memory_; }

 private:
  MemoryCharge charge_;
  std::byte* memory_ = nullptr;
  Bytes bytes_ = 0;
};

// A sample, or a stretch of a bundle (runtime/sources/bundles.h).
struct StagedSample {
  SampleId sample;  // or the first of the bundle
  sources::Extent extent;
  std::byte* memory = nullptr;  // null: it is released
  OwnPages own;                 // where the read engine had none
  Bytes room = 0;
  Bytes lead = 0;
  Bytes bytes = 0;
  bool failed = false;      // it could not be read
  bool fetched = false;     // a part of what another node has sent
  bool spilled = false;     // is read from the spill file
  bool heals = false;       // should have been there: is written anew
  Digest sum = 0;           // that it must have then
  std::uint32_t entry = 0;  // of the spill file, while it is written
};

struct Reading {
  engine::Request request;
  DatasetId dataset;
  PipelineId pipeline;
  ShareId keep = ShareId::none();
  std::uint8_t bundle_shift = 0;         // bundles are read if it is not 0
  bool staged = true;                    // until it is released
  bool from_spill = false;               // read from the spill file
  bool to_spill = false;                 // to be kept there
  bool written = false;                  // to the spill file, if it is to be there
  bool cancelled = false;                // the engine wants it no more
  NodeId keep_at = NodeId::none();       // another node, which is to keep it
  std::shared_ptr<std::byte[]> fetched;  // what another node has sent of it
  std::uint32_t left = 0;                // reads, then writes
  BusyTime* timed = nullptr;             // while it is read or fetched
  std::vector<StagedSample> samples;     // the stretches of a bundle are neighbours

  // Null: it is no sample of this read.
  const StagedSample* find(SampleId sample) const {
    const std::size_t count = samples.size();
    for (std::size_t tried = 0; tried < count; ++tried) {
      const std::size_t at = (found_last_ + tried) % count;
      if (samples[at].sample != sample) continue;
      found_last_ = at;
      return &samples[at];
    }
    return nullptr;
  }
  StagedSample* find(SampleId sample) {
    return const_cast<StagedSample*>(std::as_const(*this).find(sample));
  }

 private:
  mutable std::size_t found_last_ = 0;  // blocks ask for the samples in the same order
};

}  // namespace batchflow::service
