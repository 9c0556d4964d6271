// The common part of policies that keep all residents in one list, the newest insertion first: they
// differ in what a hit does and in which item is the victim.
#pragma once

#include "policies/dense_list.h"

namespace batchflow {

class OneListEviction : public EvictionPolicy {
 public:
  explicit OneListEviction(const EvictionContext& context) : list_(context.items) {}

  void hit(const Access&) override {}
  Admission missed(const Access&) override { return Admission::insert; }
  void inserted(const Access& access) override { list_.add_newest(access.item); }
  void removed(ItemId item, Removal) override { list_.take(item); }
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
  explicit MarkedListEviction(const EvictionContext& context)
      : OneListEviction(context), used_(context.items) {}

  void hit(const Access& access) final { used_[access.item.value] = 1; }
  void inserted(const Access& access) final {
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

// The factory of an entry in the list of policies.
template <class Policy>
std::unique_ptr<EvictionPolicy> make_eviction(const EvictionContext& context) {
  return std::make_unique<Policy>(context);
}

}  // namespace batchflow
