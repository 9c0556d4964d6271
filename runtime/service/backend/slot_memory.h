// Shared memory for prepared blocks and gathered batches: slabs of equal slots that jobs map.
//
// The engine says which slot of which share something goes into; this class says where that slot
// is. A share's slots lie in slabs. Each slab is a sealed memory file. It is mapped writable here,
// and read-only by the jobs of the share's stream, which alone are handed its descriptor. So a job
// sees blocks of its own dataset, pipeline and seed, and no others.
//
// A slot counts from its first use on. When the memory is needed elsewhere, a slab with only free
// slots is given back, and free slots of other slabs lose their pages. Pages go back to the
// machine even while jobs still have the slab mapped. A thread of its own unmaps slabs here, within
// milliseconds, which do not count. If pages cannot be taken back (no /proc), they count until the
// last job has unmapped the slab, or its connection has ended: a job that is handed a slab's
// descriptor holds its charge.
//
// Used by the service's own thread alone, except for Slot::fill, which workers and
// the copier call.
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
#include <thread>
#include <vector>

#include "core/base/types.h"
#include "runtime/service/backend/memory_budget.h"
#include "runtime/storage/huge_pages.h"

namespace batchflow::service {

// What a slab takes of the budget: its slots that may have pages. What is left goes back with the
// last owner. Thread-safe.
class SlabCharge {
 public:
  explicit SlabCharge(MemoryBudget& budget) : budget_(budget) {}
  ~SlabCharge() { give_back(bytes_); }
  SlabCharge(const SlabCharge&) = delete;
  // False: less than that is left.
  [[nodiscard]] bool take(Bytes bytes) {
    if (!budget_.take(bytes)) return false;
    bytes_ += bytes;
    return true;
  }
  void give_back(Bytes bytes) {
    bytes_ -= bytes;
    budget_.give_back(bytes);
  }
  void give_back_all() { budget_.give_back(bytes_.exchange(0)); }

 private:
  MemoryBudget& budget_;
  std::atomic<Bytes> bytes_{0};
};

// A memory file, mapped writable here until it is destroyed.
class SharedSlab {
 public:
  // Throws std::system_error.
  SharedSlab(std::uint64_t id, Bytes slot_bytes, std::uint32_t slots,
             std::shared_ptr<SlabCharge> charge, std::shared_ptr<storage::HugePages> huge_pages);
  ~SharedSlab();
  SharedSlab(const SharedSlab&) = delete;
  SharedSlab& operator=(const SharedSlab&) = delete;

  std::uint64_t id() const { return id_; }
  int descriptor() const { return descriptor_; }  // for jobs: to read alone
  Bytes bytes() const { return bytes_; }
  std::byte* memory() const { return memory_; }
  const std::shared_ptr<SlabCharge>& charge() const { return charge_; }
  // Gets pages for a slot, the first time. False: the machine has no memory for them.
  [[nodiscard]] bool fill(Bytes offset, Bytes bytes);
  // Takes the pages of a slot back. False: that cannot be done here.
  [[nodiscard]] bool empty(Bytes offset, Bytes bytes);
  // No job has anything in it: its pages go with it, even if jobs still map it.
  void note_unread() { is_read_ = false; }
  // It is about to be unmapped.
  void drop_charge();

 private:
  bool hand_out_readable();

  std::shared_ptr<SlabCharge> charge_;
  std::uint64_t id_;
  Bytes bytes_;
  const std::shared_ptr<storage::HugePages> huge_pages_;
  const std::unique_ptr<std::atomic<bool>[]> filled_;  // by slot
  int descriptor_;
  std::byte* memory_ = nullptr;
  bool is_read_ = true;          // a job may have something in it
  bool can_be_emptied_ = false;  // the system takes its pages back
};

// Unmaps slabs that are no longer used, on a thread of its own: 32 MiB take some 10 ms, for which
// the service's thread has a better use.
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
  bool ending_ = false;  // the thread is to end
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
  Bytes bytes() const { return bytes_; }  // of all slots that count
  struct Use {
    ShareId share;
    std::uint64_t slots = 0;  // that count
    std::uint64_t taken = 0;
    Bytes bytes = 0;
  };
  std::vector<Use> uses() const;
  // Gives back what is free until that much of the budget is left, if that helps.
  bool make_room(Bytes bytes);
  // For each second: gives back the slabs of a share that nothing was in for some seconds. They
  // take descriptors, and their jobs may have left.
  void give_back_unused();

 private:
  static constexpr int kUnusedMost = 5;  // seconds

  struct Part {  // a slab and which of its slots are free
    std::shared_ptr<SharedSlab> slab;
    std::vector<std::uint32_t> free;  // these count
    std::vector<std::uint32_t> bare;  // and these do not: they have no pages
    std::uint32_t slots = 0;

    bool is_free() const { return slab && free.size() + bare.size() == slots; }
    std::uint64_t counted() const { return slots - bare.size(); }
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
    int unused = 0;                        // for how many seconds
  };

  // Null: there is none.
  Part* part_with(Pool& pool, std::vector<std::uint32_t> Part::*slots);
  Part* make_part(Pool& pool);
  std::shared_ptr<SharedSlab> make_slab(Bytes slot_bytes, std::uint32_t slots);
  void give_back(Pool& pool, std::uint32_t part);
  bool empty_one(const Pool& pool, Part& part);

  MemoryBudget& budget_;
  std::function<void(std::uint64_t)> gone_;
  const std::shared_ptr<storage::HugePages> huge_pages_ = std::make_shared<storage::HugePages>();
  const std::shared_ptr<Unmapper> unmapper_ = std::make_shared<Unmapper>();
  std::map<std::uint32_t, Pool> pools_;  // by share
  std::uint64_t next_slab_ = 1;
  Bytes bytes_ = 0;
};

}  // namespace batchflow::service
