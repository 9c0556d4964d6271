// The common part of policies that keep what matters most to training: the resident with the lowest
// score leaves for a newcomer with a higher one.
//
// Scores are those that jobs report (weighted orders). As long as none has come, such a policy
// fills its share, and then neither inserts nor evicts.
#pragma once

#include <cstdint>

#include "core/base/zero_array.h"
#include "core/engine/policy.h"
#include "policies/dense_heap.h"

namespace batchflow::policies {

struct Worth {
  float score = 0;
  std::uint32_t requests = 0;
};
struct IsWorthLess {
  bool operator()(const Worth& a, const Worth& b) const {
    return a.score != b.score ? a.score < b.score : a.requests < b.requests;
  }
};

class Importance : public engine::EvictionPolicy {
 public:
  explicit Importance(const engine::EvictionContext& context)
      : heap_(context.items),
        known_(context.items),
        slots_(context.items),
        capacity_(context.capacity) {}

  void hit(const engine::Access& access) override { note(access.item); }
  engine::Admission missed(const engine::Access& access) override {
    note(access.item);
    if (access.slots > capacity_) return engine::Admission::bypass;
    if (used_ <= capacity_ - access.slots) return engine::Admission::insert;
    const bool matters_more = heap_.size() > 0 && known_[access.item.value].score > 0 &&
                              heap_.top_key().score < known_[access.item.value].score;
    return matters_more ? engine::Admission::insert : engine::Admission::bypass;
  }
  void inserted(const engine::Access& access) override {
    heap_.push(access.item, known_[access.item.value]);
    slots_[access.item.value] = static_cast<std::uint32_t>(access.slots);
    used_ += access.slots;
  }
  // Of several that leave for one newcomer the first matters less than it; the others may not.
  ItemId victim(const engine::Access&) override {
    return heap_.size() > 0 ? heap_.top() : ItemId::none();
  }
  void removed(ItemId item, engine::Removal) override {
    heap_.take(item);
    used_ -= slots_[item.value];
  }
  void pinned(ItemId item) override { heap_.put_aside(item); }
  void unpinned(ItemId item) override {
    heap_.bring_back(item);
    heap_.change(item, known_[item.value]);
  }
  void resized(Slots capacity) override { capacity_ = capacity; }
  void grow(std::size_t items) override {
    heap_.grow(items);
    known_.grow(items);
    slots_.grow(items);
  }
  void forget(ItemId item) override { known_[item.value] = {}; }
  void scored(ItemId item, float score) override {
    known_[item.value].score = score;
    rank(item);
  }

 protected:
  virtual void note(ItemId) {}
  // Puts a resident where its worth says.
  void rank(ItemId item) {
    if (heap_.contains(item) && !heap_.is_aside(item)) heap_.change(item, known_[item.value]);
  }

  DenseHeap<Worth, IsWorthLess> heap_;
  ZeroArray<Worth> known_;

 private:
  ZeroArray<std::uint32_t> slots_;
  Slots used_ = 0;
  Slots capacity_;
};

}  // namespace batchflow::policies
