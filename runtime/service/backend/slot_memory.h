// Shared memory for prepared blocks and gathered batches: slabs of equal slots that jobs map.
//
// The engine says which slot of which share something goes into; this class says where that slot
// is. A share's slots lie in slabs. Each slab is a sealed memory file. It is mapped writable here,
// and read-only by the jobs of the share's stream, which alone are handed its descriptor. So a job
// sees blocks of its own dataset, pipeline and seed, and no others.
//
// A slab with only free slots is given back when the memory is needed elsewhere. Its pages go back
// to the machine, even while jobs still have it mapped. A thread of its own does this and unmaps
// the slab here, within milliseconds, which do not count. If the pages cannot be taken back (no
// /proc), the slab counts until the last job has unmapped it, or its connection has ended: a job
// that is handed a slab's descriptor holds its charge.
//
// Used by the service's own thread alone, except for Slot::fill, which a worker calls.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/types.h"
#include "runtime/service/backend/memory_budget.h"
#include "runtime/storage/huge_pages.h"

namespace batchflow::service {

// A memory file, mapped writable here until it is destroyed.
class SharedSlab {
 public:
  // Throws std::system_error.
  SharedSlab(std::uint64_t id, Bytes slot_bytes, std::uint32_t slots,
             std::shared_ptr<MemoryCharge> charge, std::shared_ptr<storage::HugePages> huge_pages);
  ~SharedSlab();
  SharedSlab(const SharedSlab&) = delete;
  SharedSlab& operator=(const SharedSlab&) = delete;

  std::uint64_t id() const { return id_; }
  int descriptor() const { return descriptor_; }  // for jobs: to read alone
  Bytes bytes() const { return bytes_; }
  std::byte* memory() const { return memory_; }
  std::shared_ptr<const MemoryCharge> charge() const { return charge_; }
  // Gets pages for a slot, the first time. False: the machine has no memory for them.
  [[nodiscard]] bool fill(Bytes offset, Bytes bytes);
  // No job has anything in it: its pages go with it, even if jobs still map it.
  void note_unread() { is_read_ = false; }
  // It is about to be unmapped.
  void drop_charge();

 private:
  bool hand_out_readable();

  std::shared_ptr<MemoryCharge> charge_;
  std::uint64_t id_;
  Bytes bytes_;
  const std::shared_ptr<storage::HugePages> huge_pages_;
  const std::unique_ptr<std::atomic<bool>[]> filled_;  // by slot
  int descriptor_;
  std::byte* memory_ = nullptr;
  bool is_read_ = true;
  bool can_be_emptied_ = false;
};

// Unmaps slabs that are no longer used, on a thread of its own: 32 MiB take some 10 ms, which the
// service's thread has better use for.
class Unmapper {
 public:
  Unmapper();
  ~Unmapper();  // when all that was added is unmapped
  Unmapper(const Unmapper&) = delete;
  void add(std::unique_ptr<SharedSlab> slab);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<SharedSlab>> slabs_;
  bool ending_ = false;
  std::thread thread_;
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
  // `gone` is called for a slab that no later slot will be in.
  SlotMemory(MemoryBudget& budget, std::function<void(std::uint64_t slab)> gone);

  // The memory of the slot, made if it has none; empty when there is no memory for it now.
  // `audience` names the stream that may read the share: the share's id may be that of an earlier
  // share, with slabs that other jobs have mapped.
  std::optional<Slot> take(ShareId share, SlotId slot, Bytes bytes, std::uint64_t audience);
  // Null if the slot has no memory.
  const Slot* find(ShareId share, SlotId slot) const;
  void free(ShareId share, SlotId slot);
  // The memory of a slot that holds `bytes`: whole pages.
  static constexpr Bytes slot_bytes(Bytes bytes) { return (bytes + 4095) / 4096 * 4096; }
  Bytes bytes() const { return bytes_; }  // of all slabs
  struct Use {
    ShareId share;
    std::uint64_t slots = 0;  // that there is memory for
    std::uint64_t taken = 0;
    Bytes bytes = 0;
  };
  std::vector<Use> uses() const;
  // Gives back empty slabs until that much of the budget is left, if that helps.
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

  std::shared_ptr<SharedSlab> make_slab(Bytes slot_bytes, std::uint32_t slots);
  void give_back(Pool& pool, std::uint32_t part);

  MemoryBudget& budget_;
  std::function<void(std::uint64_t)> gone_;
  const std::shared_ptr<storage::HugePages> huge_pages_ = std::make_shared<storage::HugePages>();
  const std::shared_ptr<Unmapper> unmapper_ = std::make_shared<Unmapper>();
  std::map<std::uint32_t, Pool> pools_;  // by share
  std::uint64_t next_slab_ = 1;
  Bytes bytes_ = 0;
};

}  // namespace batchflow::service
