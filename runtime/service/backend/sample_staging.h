// Where the samples of reads are while blocks are prepared from them: in the staging memory of the
// storage engine, or beside it.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/base/types.h"
#include "runtime/service/backend/memory_budget.h"
#include "runtime/sources/sample_index.h"
#include "runtime/storage/read_engine.h"

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
  bool logged = false;      // and a record out of a feed's log there
  std::int32_t label = -1;  // of such a record; -1: none
  bool spilled = false;     // is read from the spill file
  bool heals = false;       // should have been there: is written anew
  Digest sum = 0;           // that it must have then
  std::uint32_t entry = 0;  // of the spill file, while it is written
};

// Gives each sample memory of its own, so that it can be released alone. The engine has counted it.
class SampleStaging {
 public:
  // Both outlive it.
  SampleStaging(storage::ReadEngine& reader, MemoryBudget& budget)
      : reader_(reader), budget_(budget) {}

  // False: the machine has no pages.
  bool stage(StagedSample& one);
  void unstage(StagedSample& one);

  Bytes bytes() const { return bytes_; }            // in whole sectors
  Bytes bytes_most() const { return bytes_most_; }  // at any time
  // Samples since the start that found no room in the staging memory.
  std::uint64_t unregistered() const { return unregistered_; }

 private:
  storage::ReadEngine& reader_;
  MemoryBudget& budget_;
  Bytes bytes_ = 0;
  Bytes bytes_most_ = 0;
  std::uint64_t unregistered_ = 0;
};

}  // namespace batchflow::service
