// The batches that programs hold, of all loaders of this process, by handle. So any thread can
// release a batch, also twice, and after its loader was closed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "core/base/types.h"
#include "runtime/client/batchflow.h"
#include "runtime/client/link.h"
#include "runtime/client/pinning.h"

namespace batchflow::client {

struct Slab {  // of the service's memory
  std::uint64_t number = 0;
  protocol::Mapping mapping;
  mutable Pinning pinning;  // of it; ends before it does
};

struct AlignedDelete {
  static constexpr std::align_val_t kAlignment{64};
  void operator()(std::byte* memory) const { ::operator delete[](memory, kAlignment); }
};
using AlignedBytes = std::unique_ptr<std::byte[], AlignedDelete>;
AlignedBytes make_aligned(Bytes bytes);

// Counts the processes between this one and the first that used the library. An object that was
// made at another count belongs to a parent process: this process must not touch its rings and
// sockets.
std::uint32_t process_generation();

// A slot of the service with a batch that is given several times. The service gets it back when the
// last of these has been released.
class KeptSlot {
 public:
  KeptSlot(std::shared_ptr<Link> link, std::uint64_t step, bool in_place)
      : link_(std::move(link)), step_(step), in_place_(in_place) {}
  ~KeptSlot();
  KeptSlot(const KeptSlot&) = delete;
  KeptSlot& operator=(const KeptSlot&) = delete;
  Link& link() const { return *link_; }

 private:
  std::shared_ptr<Link> link_;
  std::uint64_t step_;
  bool in_place_;
  std::uint32_t generation_ = process_generation();
};

struct HeldBatch {
  std::shared_ptr<Link> link;
  std::uint64_t step = 0;                // as the service counts
  std::shared_ptr<const Slab> slab;      // that holds it, if it is in place
  AlignedBytes copy;                     // that holds it otherwise
  std::shared_ptr<const KeptSlot> kept;  // of a batch in place that is given several times
  std::vector<std::uint8_t> marks;  // shown instead of those in the slab; empty: those are shown
  std::vector<bf_array> arrays;
};

// Answers the batch's handle, which is never 0.
std::uint64_t hold(std::unique_ptr<HeldBatch> batch);
void release(std::uint64_t handle);
// Pins the memory that the batch lies in for GPUs of this process. Answers why it cannot be done,
// or nothing.
std::string pin(std::uint64_t handle, int device);

}  // namespace batchflow::client
