// What a thread does when `new` finds no memory.
//
// A thread of the service keeps data that others rely on, and half a change of it is worse than
// none. So it waits: first a reserve is given away, then the thread sleeps until others have given
// memory back. Some work can be given up as a whole, and its size comes from outside. Such work
// says so with MayRunOutOfMemory. There `new` throws std::bad_alloc, and what catches it ends that
// work alone.
//
// This holds only in a program that calls prepare_for_no_memory(); elsewhere `new` always throws.
#pragma once

#include <functional>

namespace batchflow::memory {

// Call it once, before other threads begin. From then on large pieces that are freed go back to the
// machine at once, instead of staying for the next piece of their size.
void prepare_for_no_memory();

// Takes the reserve anew, if it was given away and there is memory again. Thread-safe.
void refill_memory_reserve();

// As long as this lives, this thread's `new` throws. May be nested.
class MayRunOutOfMemory {
 public:
  MayRunOutOfMemory();
  ~MayRunOutOfMemory();
  MayRunOutOfMemory(const MayRunOutOfMemory&) = delete;
};

// The opposite, for a part of such work that must be done to its end: `new` waits.
class WaitsForMemory {
 public:
  WaitsForMemory();
  ~WaitsForMemory();
  WaitsForMemory(const WaitsForMemory&) = delete;

 private:
  int before_;
};

// Repeats `work` until it does not throw std::bad_alloc: for code that allocates by other means
// than `new`. `work` must leave nothing half done when it throws.
void until_there_is_memory(const std::function<void()>& work);

}  // namespace batchflow::memory
