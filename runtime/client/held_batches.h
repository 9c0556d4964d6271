// The batches that users hold, of all loaders of this process: by handle, so that a batch can be
// released by any thread, twice, and after its loader was closed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "core/types.h"
#include "runtime/client/batchflow.h"
#include "runtime/client/link.h"

namespace batchflow {

struct Slab {  // of the service's memory
  std::uint64_t number = 0;
  Mapping mapping;
};

struct AlignedDelete {
  static constexpr std::align_val_t kAlignment{64};
  void operator()(std::byte* memory) const { ::operator delete[](memory, kAlignment); }
};
using AlignedBytes = std::unique_ptr<std::byte[], AlignedDelete>;
AlignedBytes make_aligned(Bytes bytes);

struct HeldBatch {
  std::shared_ptr<Link> link;
  std::uint64_t step = 0;            // as the service counts
  std::shared_ptr<const Slab> slab;  // where it lies in place
  AlignedBytes copy;                 // or what it was copied to
  std::vector<std::uint8_t> marks;   // where others are shown than lie there
  std::vector<bf_array> arrays;
};

// Counts the processes between this one and the first that used the library. What belongs to
// another than the current one is of a parent: its rings and sockets are not to be touched.
std::uint32_t process_generation();

// Gives the batch's handle, never 0.
std::uint64_t hold(std::unique_ptr<HeldBatch> batch);
void release(std::uint64_t handle);

}  // namespace batchflow
