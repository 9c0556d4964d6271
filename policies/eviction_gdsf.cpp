// GDSF: priority L + uses / size, where L is the priority of the last victim; the lowest leaves.
//
// L. Cherkasova, "Improving WWW Proxies Performance with Greedy-Dual-Size-Frequency Caching
// Policy", HP Laboratories 1998.
#include <bit>
#include <functional>
#include <utility>

#include "core/engine/policy_list.h"
#include "policies/dense_heap.h"
#include "policies/eviction_list.h"

namespace batchflow::policies {
namespace {

// Of equal values, the item accessed earlier leaves. Both are in one integer, so that comparing
// needs no branch: the bits of positive doubles are ordered as the doubles are.
using Priority = unsigned __int128;

Priority priority_of(double value, std::uint64_t accessed) {
  return Priority{std::bit_cast<std::uint64_t>(value)} << 64 | accessed;
}
double value_of(Priority priority) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(priority >> 64));
}

// What is known of residents lies side by side, in slots that are used again, and so does the heap:
// the memory that a request touches is in proportion to the residents, not to all items.
class Gdsf final : public engine::EvictionPolicy {
 public:
  explicit Gdsf(const engine::EvictionContext& context) : slot_of_(context.items) {}

  // A hit can only raise a priority, so the heap need not know of it before the item is on top.
  void hit(const engine::Access& access) override {
    Resident& resident = residents_[slot_of_[access.item.value]];
    ++resident.uses;
    rate(resident);
  }
  engine::Admission missed(const engine::Access&) override { return engine::Admission::insert; }
  void inserted(const engine::Access& access) override {
    const std::uint32_t slot = take_slot();
    slot_of_[access.item.value] = slot;
    Resident& resident = residents_[slot];
    resident.item = access.item.value;
    resident.uses = 1;
    resident.size = static_cast<std::uint32_t>(access.slots);
    rate(resident);
    heap_.push(ItemId(slot), resident.priority);
  }
  ItemId victim(const engine::Access&) override {
    while (heap_.size() > 0) {
      const ItemId slot = heap_.top();
      const Resident& resident = residents_[slot.value];
      if (heap_.top_key() == resident.priority) return ItemId(resident.item);
      heap_.change(slot, resident.priority);
    }
    return ItemId::none();
  }
  void pinned(ItemId item) override { heap_.put_aside(ItemId(slot_of_[item.value])); }
  void unpinned(ItemId item) override { heap_.bring_back(ItemId(slot_of_[item.value])); }
  void removed(ItemId item, engine::Removal why) override {
    const std::uint32_t slot = slot_of_[item.value];
    if (why == engine::Removal::evicted) inflation_ = value_of(residents_[slot].priority);
    heap_.take(ItemId(slot));
    residents_[slot].next_free = free_;
    free_ = slot;
  }
  void resized(Slots) override {}
  void grow(std::size_t items) override { slot_of_.grow(items); }
  void forget(ItemId) override {}

 private:
  struct Resident {
    Priority priority;
    std::uint32_t item;
    std::uint32_t uses;
    std::uint32_t size;  // in slots of the share
    std::uint32_t next_free;
  };
  static constexpr double kScale = 1e6;  // keeps uses / size well above the rounding of L
  static constexpr std::uint32_t kNone = UINT32_MAX;

  void rate(Resident& resident) {
    resident.priority = priority_of(inflation_ + resident.uses * kScale / resident.size, clock_++);
  }
  std::uint32_t take_slot() {
    if (free_ != kNone) return std::exchange(free_, residents_[free_].next_free);
    residents_.grow(slots_ + 1);
    heap_.grow(slots_ + 1);
    return slots_++;
  }

  ZeroArray<std::uint32_t> slot_of_;          // of each resident
  ZeroArray<Resident> residents_;             // by slot
  std::uint32_t slots_ = 0;                   // that were ever used
  std::uint32_t free_ = kNone;                // the first of those that are free
  DenseHeap<Priority, std::less<>> heap_{0};  // of slots
  double inflation_ = 0;                      // L
  std::uint64_t clock_ = 0;
};

}  // namespace

extern const engine::PolicyEntry eviction_gdsf;
constexpr engine::PolicyEntry eviction_gdsf{
    "gdsf",
    "Small and often used items stay.\n"
    "Priority is uses / size, plus that of the last victim. For items of very\n"
    "different sizes when the count of misses matters more than their bytes.",
    &make_eviction<Gdsf>};

}  // namespace batchflow::policies
