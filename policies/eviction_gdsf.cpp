// GDSF: priority L + uses / size, where L is the priority of the last victim; the lowest leaves.
//
// L. Cherkasova, "Improving WWW Proxies Performance with Greedy-Dual-Size-Frequency Caching
// Policy", HP Laboratories 1998.
#include <bit>
#include <functional>

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

class Gdsf final : public engine::EvictionPolicy {
 public:
  explicit Gdsf(const engine::EvictionContext& context)
      : nodes_(context.items), heap_(context.items) {}

  // A hit can only raise a priority, so the heap need not know of it before the item is on top.
  void hit(const engine::Access& access) override {
    Node& node = nodes_[access.item.value];
    ++node.uses;
    rate(node);
  }
  engine::Admission missed(const engine::Access&) override { return engine::Admission::insert; }
  void inserted(const engine::Access& access) override {
    Node& node = nodes_[access.item.value];
    node.uses = 1;
    node.slots = static_cast<std::uint32_t>(access.slots);
    rate(node);
    heap_.push(access.item, node.priority);
  }
  ItemId victim(const engine::Access&) override {
    while (heap_.size() > 0) {
      const ItemId item = heap_.top();
      const Priority now = nodes_[item.value].priority;
      if (heap_.top_key() == now) return item;
      heap_.change(item, now);
    }
    return ItemId::none();
  }
  void pinned(ItemId item) override { heap_.put_aside(item); }
  void unpinned(ItemId item) override { heap_.bring_back(item); }
  void removed(ItemId item, engine::Removal why) override {
    if (why == engine::Removal::evicted) inflation_ = value_of(nodes_[item.value].priority);
    heap_.take(item);
  }
  void resized(Slots) override {}
  void grow(std::size_t items) override {
    nodes_.grow(items);
    heap_.grow(items);
  }
  void forget(ItemId) override {}

 private:
  struct Node {
    Priority priority;
    std::uint32_t uses;
    std::uint32_t slots;
  };
  static constexpr double kScale = 1e6;  // keeps uses / size well above the rounding of L

  void rate(Node& node) {
    node.priority = priority_of(inflation_ + node.uses * kScale / node.slots, clock_++);
  }

  ZeroArray<Node> nodes_;
  DenseHeap<Priority, std::less<>> heap_;
  double inflation_ = 0;  // L
  std::uint64_t clock_ = 0;
};

}  // namespace

extern const engine::PolicyEntry eviction_gdsf;
const engine::PolicyEntry eviction_gdsf{
    "gdsf",
    "Small and often used items stay.\n"
    "Priority is uses / size, plus that of the last victim. For items of very\n"
    "different sizes when the count of misses matters more than their bytes.",
    &make_eviction<Gdsf>};

}  // namespace batchflow::policies
