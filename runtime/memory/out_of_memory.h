// What a thread does when `new` finds no memory.
//
// A thread of the service keeps what others rely on, and half a change of it is worse than none. So
// it waits: first a reserve is given away, then the thread sleeps until others have given memory
// back. Work that can be given up as a whole, and whose size comes from outside, says so with
// MayRunOutOfMemory: there `new` throws std::bad_alloc, and what catches it ends that work alone.
//
// Only in a program that calls prepare_for_no_memory(); elsewhere `new` always throws.
#pragma once

#include <functional>

namespace batchflow::memory {

// Once, before other threads begin. Large pieces that are freed go back to the machine at once from
// then on, instead of staying for the next of their size.
void prepare_for_no_memory();

// Takes the reserve anew, if it was given away and there is memory again. Thread-safe.
void refill_memory_reserve();

// As long as it lives, this thread's `new` throws. May be nested.
class MayRunOutOfMemory {
 public:
  MayRunOutOfMemory();
  ~MayRunOutOfMemory();
  MayRunOutOfMemory(const MayRunOutOfMemory&) = delete;
};

// The other way round, inside of such work: what must be done to its end.
class WaitsForMemory {
 public:
  WaitsForMemory();
  ~WaitsForMemory();
  WaitsForMemory(const WaitsForMemory&) = delete;

 private:
  int before_;
};

// Does it again until it does not throw std::bad_alloc: for what allocates by other means than
// `new`. `work` must leave nothing half done when it throws.
void until_there_is_memory(const std::function<void()>& work);

}  // namespace batchflow::memory
