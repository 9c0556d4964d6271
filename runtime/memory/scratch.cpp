#include "runtime/memory/scratch.h"

#include <sys/mman.h>

#include <new>
#include <utility>

#include "core/base/check.h"
#include "runtime/failpoint/failpoint.h"

namespace batchflow::memory {

void ScratchBudget::take(Bytes bytes) {
  BF_CHECK(bytes <= limits_.shared);
  std::unique_lock lock(mutex_);
  const std::uint64_t turn = came_++;
  changed_.wait(lock, [&] { return turn == served_ && bytes <= left_; });
  ++served_;
  left_ -= bytes;
  changed_.notify_all();
}

void ScratchBudget::give_back(Bytes bytes) {
  const std::lock_guard lock(mutex_);
  left_ += bytes;
  changed_.notify_all();
}

void ScratchCharge::take(Bytes bytes) {
  BF_CHECK(bytes_ == 0);
  if (bytes <= budget_.limits().small_sample_most()) return;
  budget_.take(bytes);
  bytes_ = bytes;
}

void ScratchCharge::give_back() {
  if (bytes_ > 0) budget_.give_back(std::exchange(bytes_, 0));
}

std::byte* ScratchMemory::have(Bytes bytes) {
  if (bytes <= bytes_) return data_;
  drop();
  constexpr Bytes kPage = 4096;
  const Bytes whole = (counted_sum(bytes, kPage - 1)) / kPage * kPage;
  void* const made = BF_FAILPOINT("memory.scratch") ? MAP_FAILED
                                                    : mmap(nullptr, whole, PROT_READ | PROT_WRITE,
                                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(made);
  bytes_ = whole;
  return data_;
}

void ScratchMemory::drop() {
  if (data_) munmap(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace batchflow::memory
