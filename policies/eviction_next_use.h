// The parts of policies that know when items are requested next: the item with the farthest next
// use leaves, and a newcomer that is needed later than all others stays out.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "core/base/zero_array.h"
#include "core/engine/policy.h"
#include "policies/dense_heap.h"

namespace batchflow::policies {

class Belady : public engine::EvictionPolicy {
 public:
  explicit Belady(const engine::EvictionContext& context) : heap_(context.items) {}

  void hit(const engine::Access& access) override { heap_.change(access.item, access.next_use); }
  engine::Admission missed(const engine::Access&) override { return engine::Admission::insert; }
  void inserted(const engine::Access& access) override { heap_.push(access.item, access.next_use); }
  ItemId victim(const engine::Access&) override {
    return heap_.size() > 0 ? heap_.top() : ItemId::none();
  }
  void removed(ItemId item, engine::Removal) override { heap_.take(item); }
  void pinned(ItemId item) override { heap_.put_aside(item); }
  void unpinned(ItemId item) override { heap_.bring_back(item); }
  void resized(Slots) override {}
  void prefetch(ItemId item) const override { heap_.prefetch(item); }
  void grow(std::size_t items) override { heap_.grow(items); }
  void forget(ItemId) override {}

 protected:
  DenseHeap<std::uint64_t, std::greater<>> heap_;
};

// The newcomer competes: items needed later than the newcomer leave until it fits. If they do not
// suffice, it is kept out, as if it had come in and left again as the item needed last.
class BeladyBypass : public Belady {
 public:
  explicit BeladyBypass(const engine::EvictionContext& context)
      : Belady(context), slots_(context.items), capacity_(context.capacity) {}

  engine::Admission missed(const engine::Access& access) override {
    if (used_ + access.slots <= capacity_) return engine::Admission::insert;
    keeps_out_ = slots_needed_later(access) + capacity_ < used_ + access.slots;
    return keeps_out_ ? engine::Admission::make_room : engine::Admission::insert;
  }
  ItemId victim(const engine::Access& newcomer) override {
    const auto item = Belady::victim(newcomer);
    const bool competes = keeps_out_ && !newcomer.item.is_none();
    if (competes && !item.is_none() && heap_.key(item) <= newcomer.next_use) return ItemId::none();
    return item;
  }
  void inserted(const engine::Access& access) override {
    Belady::inserted(access);
    slots_[access.item.value] = static_cast<std::uint32_t>(access.slots);
    if (used_ == 0) slots_of_each_ = access.slots;
    if (slots_of_each_ != access.slots) slots_of_each_ = 0;
    used_ += access.slots;
    keeps_out_ = false;
  }
  void removed(ItemId item, engine::Removal why) override {
    Belady::removed(item, why);
    used_ -= slots_of(item);
  }
  void resized(Slots capacity) override { capacity_ = capacity; }
  void prefetch(ItemId item) const override {
    Belady::prefetch(item);
    slots_.prefetch(item.value);
  }
  void grow(std::size_t items) override {
    Belady::grow(items);
    slots_.grow(items);
  }

 private:
  // The slots of items needed later than the newcomer, counted only until they suffice.
  Slots slots_needed_later(const engine::Access& newcomer) {
    Slots slots = 0;
    const Slots enough = used_ + newcomer.slots - capacity_;
    if (heap_.size() == 0 || heap_.top_key() <= newcomer.next_use) return 0;
    if (slots_of(heap_.top()) >= enough) return enough;
    std::vector<std::pair<ItemId, std::uint64_t>> aside;
    while (heap_.size() > 0 && heap_.top_key() > newcomer.next_use && slots < enough) {
      aside.emplace_back(heap_.top(), heap_.top_key());
      slots += slots_of(heap_.top());
      heap_.take(heap_.top());
    }
    for (const auto& [item, next_use] : aside) heap_.push(item, next_use);
    return slots;
  }

  Slots slots_of(ItemId item) const {
    return slots_of_each_ > 0 ? slots_of_each_ : slots_[item.value];
  }

  ZeroArray<std::uint32_t> slots_;
  Slots slots_of_each_ = 0;  // while all take as many, which saves looking; else 0
  Slots used_ = 0;
  Slots capacity_;
  bool keeps_out_ = false;  // the item asked for last
};

}  // namespace batchflow::policies
