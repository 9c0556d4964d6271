// Belady: whose next use is farthest away leaves. For traces and seeded orders, where the future is
// known; elsewhere every next use is unknown, and unknown counts as farthest.
//
// L. A. Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems
// Journal 1966. With items of several sizes it is a good heuristic, no longer the optimum.
#include <functional>

#include "core/policy_list.h"
#include "policies/dense_heap.h"
#include "policies/eviction_list.h"

namespace batchflow {
namespace {

class Belady : public EvictionPolicy {
 public:
  explicit Belady(const EvictionContext& context) : heap_(context.items) {}

  void hit(const Access& access) override { heap_.change(access.item, access.next_use); }
  Admission missed(const Access&) override { return Admission::insert; }
  void inserted(const Access& access) override { heap_.push(access.item, access.next_use); }
  std::optional<ItemId> victim(const Access&, const Pins& pins) override {
    return top_unpinned(heap_, pins, [](ItemId) { return true; });
  }
  void removed(ItemId item, Removal) override { heap_.take(item); }
  void resized(Slots) override {}
  void grow(std::size_t items) override { heap_.grow(items); }
  void forget(ItemId) override {}

 protected:
  DenseHeap<std::uint64_t, std::greater<>> heap_;
};

// Keeps an item out that is needed later than all that is here.
class BeladyBypass final : public Belady {
 public:
  explicit BeladyBypass(const EvictionContext& context)
      : Belady(context), slots_(context.items), capacity_(context.capacity) {}

  Admission missed(const Access& access) override {
    const bool room = used_ + access.slots <= capacity_;
    const bool nearer = heap_.size() > 0 && access.next_use < heap_.top_key();
    return room || nearer ? Admission::insert : Admission::bypass;
  }
  void inserted(const Access& access) override {
    Belady::inserted(access);
    slots_[access.item.value] = static_cast<std::uint32_t>(access.slots);
    used_ += access.slots;
  }
  void removed(ItemId item, Removal why) override {
    Belady::removed(item, why);
    used_ -= slots_[item.value];
  }
  void resized(Slots capacity) override { capacity_ = capacity; }
  void grow(std::size_t items) override {
    Belady::grow(items);
    slots_.grow(items);
  }

 private:
  ZeroArray<std::uint32_t> slots_;
  Slots used_ = 0;
  Slots capacity_;
};

}  // namespace

extern const PolicyEntry eviction_belady;
const PolicyEntry eviction_belady{
    "belady",
    "The item whose next use is farthest away leaves; who is missing always comes in.\n"
    "Needs the future, which traces and seeded orders have: the bound others are compared with.",
    &make_eviction<Belady>};

extern const PolicyEntry eviction_belady_bypass;
const PolicyEntry eviction_belady_bypass{
    "belady-bypass", "belady that keeps an item out which is needed later than all that is here.",
    &make_eviction<BeladyBypass>};

}  // namespace batchflow
