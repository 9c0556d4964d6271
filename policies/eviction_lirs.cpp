// LIRS: items that come back soon (LIR) hold nearly all of the cache; all others (HIR) pass through
// a small queue. A stack in order of recency, down to the oldest LIR item, remembers who was here:
// a HIR item asked for while it is in the stack came back sooner than that LIR item, and replaces
// it.
//
// S. Jiang, X. Zhang, "LIRS: An Efficient Low Inter-reference Recency Set Replacement Policy",
// SIGMETRICS 2002.
#include <algorithm>

#include "core/policy_list.h"
#include "policies/dense_list.h"
#include "policies/eviction_list.h"

namespace batchflow {
namespace {

enum class State : std::uint8_t { unknown, lir, hir, ghost };  // ghost: in the stack only

struct StackNode : Links {
  std::uint32_t slots;
  State state;
  bool in_stack;
};

class Lirs final : public EvictionPolicy {
 public:
  explicit Lirs(const EvictionContext& context)
      : hir_ratio_(context.parameters.number("hir")), stack_(context.items), queue_(context.items) {
    Lirs::resized(context.capacity);
  }

  void hit(const Access& access) override {
    const ItemId item = access.item;
    const bool was_in_stack = stack_[item].in_stack;
    to_top(item);
    if (stack_[item].state == State::hir) {
      queue_.take(item);
      if (was_in_stack) {
        become_lir(item);
      } else {
        queue_.add_newest(item);
      }
    }
    balance();
  }
  // What does not fit the queue can never be tried, so it is kept out.
  Admission missed(const Access& access) override {
    return access.slots > hir_ ? Admission::bypass : Admission::insert;
  }
  void inserted(const Access& access) override {
    const ItemId item = access.item;
    StackNode& node = stack_[item];
    const bool came_back = node.state == State::ghost;
    node.slots = static_cast<std::uint32_t>(access.slots);
    to_top(item);
    if (came_back || lir_used_ + access.slots <= lir_) {
      become_lir(item);
    } else {
      node.state = State::hir;
      queue_.add_newest(item);
    }
    balance();
  }
  std::optional<ItemId> victim(const Access&, const Pins& pins) override {
    if (const auto item = oldest_unpinned(queue_, pins)) return item;
    for (ItemId item = stack_.oldest(); !item.is_none(); item = stack_.newer(item)) {
      if (stack_[item].state == State::lir && !(pins.any() && pins.pinned(item))) return item;
    }
    return std::nullopt;
  }
  void removed(ItemId item, Removal why) override {
    StackNode& node = stack_[item];
    if (node.state == State::hir) {
      queue_.take(item);
      node.state = State::ghost;
    } else {
      lir_used_ -= node.slots;
      node.state = State::ghost;
    }
    if (why != Removal::evicted || !node.in_stack) forget(item);
    balance();
  }
  void resized(Slots capacity) override {
    hir_ = std::max<Slots>(1, static_cast<Slots>(static_cast<double>(capacity) * hir_ratio_));
    lir_ = capacity > hir_ ? capacity - hir_ : 0;
  }
  void grow(std::size_t items) override {
    stack_.grow(items);
    queue_.grow(items);
  }
  void forget(ItemId item) override {
    StackNode& node = stack_[item];
    if (node.in_stack) stack_.take(item);
    node.in_stack = false;
    node.state = State::unknown;
  }

 private:
  void to_top(ItemId item) {
    StackNode& node = stack_[item];
    if (node.in_stack) stack_.take(item);
    node.in_stack = true;
    stack_.add_newest(item);
  }
  void become_lir(ItemId item) {
    stack_[item].state = State::lir;
    lir_used_ += stack_[item].slots;
  }
  // The oldest of the stack is LIR, and the LIR items take no more than their part.
  void balance() {
    prune();
    while (lir_used_ > lir_ && !stack_.empty()) {
      const ItemId item = stack_.oldest();
      stack_[item].state = State::hir;
      lir_used_ -= stack_[item].slots;
      queue_.add_newest(item);
      prune();
    }
  }
  // Below the oldest LIR item nobody could come back sooner than it.
  void prune() {
    while (!stack_.empty()) {
      const ItemId item = stack_.oldest();
      StackNode& node = stack_[item];
      if (node.state == State::lir) return;
      stack_.take(item);
      node.in_stack = false;
      if (node.state == State::ghost) node.state = State::unknown;
    }
  }

  const double hir_ratio_;
  Slots lir_ = 0;  // slots for LIR items
  Slots hir_ = 0;  // slots for the others
  Slots lir_used_ = 0;
  DenseLists<1, StackNode> stack_;
  DenseLists<> queue_;  // the resident HIR items
};

constexpr Parameter kParameters[] = {
    {.name = "hir",
     .type = Parameter::Type::number,
     .default_value = "0.01",
     .help = "share of the capacity for items that are not known to come back soon",
     .least = 0,
     .greatest = 1},
};

}  // namespace

extern const PolicyEntry eviction_lirs;
const PolicyEntry eviction_lirs{
    "lirs",
    "Keeps the items that come back soonest; all others pass through a small queue.\n"
    "Items larger than that queue are not kept (SIGMETRICS 2002).",
    &make_eviction<Lirs>, kParameters};

}  // namespace batchflow
