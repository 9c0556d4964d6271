// A policy that fills its share, and then neither inserts nor evicts.
//
// A job that shuffles runs (order rules, section 3) requests a bundle as often as it has samples,
// within a short time. Such a bundle is kept for that time. It takes the room of the bundle that
// was read to its end last, and once it is read to its end it is itself the next to leave. All
// others stay.
#pragma once

#include "core/base/zero_array.h"
#include "core/engine/policy.h"
#include "policies/dense_list.h"

namespace batchflow::policies {

class MinIo : public engine::EvictionPolicy {
 public:
  explicit MinIo(const engine::EvictionContext& context)
      : residents_(context.items), left_(context.items), capacity_(context.capacity) {}

  void hit(const engine::Access& access) override {
    if (access.run > 1) read(access);
  }
  engine::Admission missed(const engine::Access& access) override {
    const bool may_push_out = access.run > 1 && access.slots <= residents_.used(kIdle);
    return has_room_for(access) || may_push_out ? engine::Admission::insert
                                                : engine::Admission::bypass;
  }
  void inserted(const engine::Access& access) override {
    residents_.add(access.item, access.slots, kIdle);
    if (access.run > 1) read(access);
  }
  // Asked for a bundle of a run, where the share shrinks, or where an item is forced in.
  ItemId victim(const engine::Access&) override {
    const ItemId idle = residents_.newest(kIdle);
    return idle.is_none() ? residents_.newest(kBeingRead) : idle;
  }
  void removed(ItemId item, engine::Removal) override {
    if (residents_.in(item, kBeingRead)) left_[item.value] = 0;
    residents_.take(item);
  }
  void pinned(ItemId item) override { residents_.put_aside(item); }
  void unpinned(ItemId item) override { residents_.bring_back_as_newest(item); }
  void resized(Slots capacity) override { capacity_ = capacity; }
  void grow(std::size_t items) override {
    residents_.grow(items);
    left_.grow(items);
  }
  void forget(ItemId) override {}

 protected:
  bool has_room_for(const engine::Access& access) const {
    const Slots used = residents_.used(kIdle) + residents_.used(kBeingRead);
    return access.slots <= capacity_ && used <= capacity_ - access.slots;
  }

 private:
  enum : unsigned { kIdle, kBeingRead };

  void read(const engine::Access& access) {
    std::uint32_t& left = left_[access.item.value];
    if (left == 0) {
      left = access.run;
      residents_.move(access.item, kBeingRead);
    }
    if (--left == 0) residents_.move(access.item, kIdle);
  }

  Segments<2> residents_;
  ZeroArray<std::uint32_t> left_;  // requests to come of a bundle that is being read; others 0
  Slots capacity_;
};

}  // namespace batchflow::policies
