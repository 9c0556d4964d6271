// Pages of this process's own for one read, given back to the machine with it. They are for reads
// that find no run of the storage engine's staging memory that is long enough.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <utility>

#include "runtime/service/backend/memory_budget.h"

namespace batchflow::service {

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

}  // namespace batchflow::service
