// The common part of policies that keep all residents in one list, the newest insertion first: they
// differ in what a hit does and in which item is the victim.
#pragma once

#include "policies/dense_list.h"
#include "policies/make.h"

namespace batchflow::policies {

class OneListEviction : public engine::EvictionPolicy {
 public:
  explicit OneListEviction(const engine::EvictionContext& context) : list_(context.items) {}

  void hit(const engine::Access&) override {}
  engine::Admission missed(const engine::Access&) override { return engine::Admission::insert; }
  void inserted(const engine::Access& access) override { list_.add_newest(access.item); }
  void removed(ItemId item, engine::Removal) override { list_.take(item); }
  void pinned(ItemId item) override { list_.take(item); }
  void unpinned(ItemId item) override { list_.add_oldest(item); }
  void resized(Slots) override {}
  void grow(std::size_t items) override { list_.grow(items); }
  void forget(ItemId) override {}

 protected:
  DenseLists<> list_;
};

// Such a policy that also remembers for each item whether it was used since it came, or since it
// was last passed over.
class MarkedListEviction : public OneListEviction {
 public:
  explicit MarkedListEviction(const engine::EvictionContext& context)
      : OneListEviction(context), used_(context.items) {}

  void hit(const engine::Access& access) final { used_[access.item.value] = 1; }
  void inserted(const engine::Access& access) final {
    used_[access.item.value] = 0;
    list_.add_newest(access.item);
  }
  void grow(std::size_t items) final {
    list_.grow(items);
    used_.grow(items);
  }

 protected:
  ZeroArray<std::uint8_t> used_;
};

}  // namespace batchflow::policies
