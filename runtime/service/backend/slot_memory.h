// Shared memory for prepared blocks and gathered batches: slabs of equal slots that jobs map.
//
// The engine says which slot of which share something goes into; this class says where that is. A
// share's slots lie in slabs, each a sealed memory file: mapped writable here, and read-only by the
// jobs of the share's stream, which are the only ones that are handed its descriptor. So a job sees
// the blocks of its own stream and nobody else's. A slab whose slots are all free is given back
// when others need the memory: its pages go back to the machine, though jobs may have it mapped for
// as long as they compute. That, and unmapping it here, is done on a thread of its own, within
// milliseconds, which do not count. Where the pages cannot be had back (no /proc), the slab counts
// until the last job has unmapped it, or its connection has ended: who is handed a slab's
// descriptor holds its charge.
//
// Used by the service's own thread, but for Slot::fill, which a worker calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/types.h"
#include "runtime/service/backend/memory_budget.h"
#include "runtime/service/backend/unmapper.h"

namespace batchflow::service {

// A memory file, mapped writable here until it is destroyed.
class SharedSlab {
 public:
  // Throws std::system_error.
  SharedSlab(std::uint64_t id, Bytes bytes, std::shared_ptr<MemoryCharge> charge);
  ~SharedSlab();
  SharedSlab(const SharedSlab&) = delete;
  SharedSlab& operator=(const SharedSlab&) = delete;

  std::uint64_t id() const { return id_; }
  int descriptor() const { return descriptor_; }  // for jobs: to read alone
  Bytes bytes() const { return bytes_; }
  std::byte* memory() const { return memory_; }
  std::shared_ptr<const MemoryCharge> charge() const { return charge_; }
  // No job has anything in it: its pages go with it, whoever maps it still.
  void nobody_reads() { is_read_ = false; }
  // It is about to be unmapped.
  void drop_charge();

 private:
  bool hand_out_readable();

  std::shared_ptr<MemoryCharge> charge_;
  std::uint64_t id_;
  Bytes bytes_;
  int descriptor_;
  std::byte* memory_ = nullptr;
  bool is_read_ = true;
  bool can_be_emptied_ = false;
};

struct Slot {
  std::shared_ptr<SharedSlab> slab;
  Bytes offset = 0;
  Bytes bytes = 0;

  std::byte* memory() const { return slab->memory() + offset; }
  // Gets pages for all of it. False: the machine has no memory for them.
  [[nodiscard]] bool fill() const;
};

class SlotMemory {
 public:
  // `gone` is told of a slab that no later slot will be in.
  SlotMemory(MemoryBudget& budget, std::function<void(std::uint64_t slab)> gone);

  // The slot's place, made if it has none; empty when there is no memory for it now. `audience`
  // says who may read the share: its name may be that of an earlier one, whose slabs others have
  // mapped.
  std::optional<Slot> take(ShareId share, SlotId slot, Bytes bytes, std::uint64_t audience);
  // Null if it has no place.
  const Slot* find(ShareId share, SlotId slot) const;
  void free(ShareId share, SlotId slot);
  // That a slot of so many bytes takes: whole pages.
  static constexpr Bytes slot_bytes(Bytes bytes) { return (bytes + 4095) / 4096 * 4096; }
  Bytes bytes() const { return bytes_; }  // of all slabs
  struct Use {
    ShareId share;
    std::uint64_t slots = 0;  // that there is memory for
    std::uint64_t taken = 0;
    Bytes bytes = 0;
  };
  std::vector<Use> uses() const;
  // Gives back slabs that nothing is in until so much of the budget is left, if that helps.
  bool make_room(Bytes bytes);

 private:
  struct Part {  // a slab and which of its slots are free
    std::shared_ptr<SharedSlab> slab;
    std::vector<std::uint32_t> free;
    std::uint32_t slots = 0;
  };
  struct Taken {
    Slot slot;
    std::uint32_t part;
    std::uint32_t index;
  };
  struct Pool {
    Bytes slot_bytes = 0;
    std::uint64_t audience = 0;
    std::vector<Part> parts;
    std::map<std::uint32_t, Taken> taken;  // by slot id
  };

  std::shared_ptr<SharedSlab> make_slab(Bytes bytes);
  void give_back(Pool& pool, std::uint32_t part);

  MemoryBudget& budget_;
  std::function<void(std::uint64_t)> gone_;
  const std::shared_ptr<Unmapper> unmapper_ = std::make_shared<Unmapper>();
  std::map<std::uint32_t, Pool> pools_;  // by share
  std::uint64_t next_slab_ = 1;
  Bytes bytes_ = 0;
};

}  // namespace batchflow::service
