// An eviction policy that keeps nothing, for tests of what policies are told.
#pragma once

#include "core/engine/policy.h"

namespace batchflow::test {

// A test overrides what it is about.
class KeepsNothing : public engine::EvictionPolicy {
 public:
  void hit(const engine::Access&) override {}
  engine::Admission missed(const engine::Access&) override { return engine::Admission::bypass; }
  void inserted(const engine::Access&) override {}
  ItemId victim(const engine::Access&) override { return ItemId::none(); }
  void removed(ItemId, engine::Removal) override {}
  void pinned(ItemId) override {}
  void unpinned(ItemId) override {}
  void resized(Slots) override {}
  void grow(std::size_t) override {}
  void forget(ItemId) override {}
};

}  // namespace batchflow::test
