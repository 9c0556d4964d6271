// LIRS: items that come back soon (LIR) hold nearly all of the cache; all others (HIR) pass through
// a small queue. A stack in order of recency, down to the oldest LIR item, remembers past items. A
// HIR item asked for while it is in the stack came back sooner than that LIR item, and replaces it.
//
// S. Jiang, X. Zhang, "LIRS: An Efficient Low Inter-reference Recency Set Replacement Policy",
// SIGMETRICS 2002.
#include <algorithm>

#include "core/engine/policy_list.h"
#include "policies/dense_list.h"
#include "policies/eviction_list.h"

namespace batchflow::policies {
namespace {

enum class State : std::uint8_t { unknown, lir, hir, ghost };  // ghost: in the stack only

struct StackNode : Links {
  std::uint32_t slots;
  State state;
  bool in_stack;
};

enum List : unsigned { kQueue, kGhosts, kLists };

class Lirs final : public engine::EvictionPolicy {
 public:
  explicit Lirs(const engine::EvictionContext& context)
      : hir_ratio_(context.parameters.number("hir")),
        ghost_ratio_(context.parameters.number("ghost")),
        stack_(context.items),
        lists_(context.items) {
    Lirs::resized(context.capacity);
  }

  void hit(const engine::Access& access) override {
    const ItemId item = access.item;
    const bool was_in_stack = stack_[item].in_stack;
    to_top(item);
    if (stack_[item].state == State::hir) {
      lists_.take(item);
      if (was_in_stack) {
        become_lir(item);
      } else {
        lists_.add_newest(item, kQueue);
      }
    }
    balance();
  }
  // An item that does not fit the queue can never be tried, so it is kept out.
  engine::Admission missed(const engine::Access& access) override {
    return access.slots > hir_ ? engine::Admission::bypass : engine::Admission::insert;
  }
  void inserted(const engine::Access& access) override {
    const ItemId item = access.item;
    const bool came_back = stack_[item].state == State::ghost;
    if (came_back) drop_ghost(item);
    stack_[item].slots = static_cast<std::uint32_t>(access.slots);
    to_top(item);
    if (came_back || lir_used_ + access.slots <= lir_) {
      become_lir(item);
    } else {
      become_hir(item);
    }
    balance();
  }
  // The oldest of the stack is LIR.
  ItemId victim(const engine::Access&) override {
    const auto item = oldest_to_leave(lists_, kQueue);
    return item.is_none() ? stack_.oldest() : item;
  }
  // A LIR item that would leave, because there is no HIR item, is LIR no more.
  void pinned(ItemId item) override {
    if (stack_[item].state == State::lir) {
      lir_used_ -= stack_[item].slots;
      stack_[item].state = State::hir;
      prune();
    } else {
      lists_.take(item);
    }
  }
  void unpinned(ItemId item) override { lists_.add_oldest(item, kQueue); }
  void removed(ItemId item, engine::Removal why) override {
    StackNode& node = stack_[item];
    if (node.state == State::hir) {
      lists_.take(item);
    } else {
      lir_used_ -= node.slots;
    }
    node.state = State::unknown;
    if (node.in_stack) {
      if (why == engine::Removal::evicted) {
        become_ghost(item);
      } else {
        leave_stack(item);
      }
    }
    balance();
  }
  void resized(Slots capacity) override {
    const auto slots = static_cast<double>(capacity);
    hir_ = std::max<Slots>(1, static_cast<Slots>(slots * hir_ratio_));
    lir_ = capacity > hir_ ? capacity - hir_ : 0;
    ghosts_ = static_cast<Slots>(slots * ghost_ratio_);
  }
  void grow(std::size_t items) override {
    stack_.grow(items);
    lists_.grow(items);
  }
  void forget(ItemId item) override {
    if (stack_[item].state == State::ghost) leave_as_ghost(item);
  }

 private:
  static constexpr int kMostGhostsAtOnce = 16;  // after a resize there may be far too many

  void to_top(ItemId item) {
    StackNode& node = stack_[item];
    if (node.in_stack) stack_.take(item);
    node.in_stack = true;
    stack_.add_newest(item);
  }
  void leave_stack(ItemId item) {
    stack_.take(item);
    stack_[item].in_stack = false;
  }
  void become_lir(ItemId item) {
    stack_[item].state = State::lir;
    lir_used_ += stack_[item].slots;
  }
  void become_hir(ItemId item) {
    stack_[item].state = State::hir;
    lists_.add_newest(item, kQueue);
  }
  void become_ghost(ItemId item) {
    stack_[item].state = State::ghost;
    ghosts_used_ += stack_[item].slots;
    lists_.add_newest(item, kGhosts);
    for (int n = 0; ghosts_used_ > ghosts_ && n < kMostGhostsAtOnce; ++n) {
      leave_as_ghost(lists_.oldest(kGhosts));
    }
  }
  void drop_ghost(ItemId item) {
    lists_.take(item);
    ghosts_used_ -= stack_[item].slots;
    stack_[item].state = State::unknown;
  }
  void leave_as_ghost(ItemId item) {
    drop_ghost(item);
    leave_stack(item);
  }
  // The oldest of the stack is LIR, and the LIR items take no more than their part.
  void balance() {
    prune();
    while (lir_used_ > lir_ && !stack_.empty()) {
      const ItemId item = stack_.oldest();
      lir_used_ -= stack_[item].slots;
      become_hir(item);
      prune();
    }
  }
  // No item below the oldest LIR item could come back sooner than it.
  void prune() {
    while (!stack_.empty()) {
      const ItemId item = stack_.oldest();
      if (stack_[item].state == State::lir) return;
      if (stack_[item].state == State::ghost) drop_ghost(item);
      leave_stack(item);
    }
  }

  const double hir_ratio_;
  const double ghost_ratio_;
  Slots lir_ = 0;     // slots for LIR items
  Slots hir_ = 0;     // slots for the others
  Slots ghosts_ = 0;  // slots that ghosts would take
  Slots lir_used_ = 0;
  Slots ghosts_used_ = 0;
  DenseLists<1, StackNode> stack_;
  DenseLists<kLists> lists_;  // resident HIR items, and ghosts
};

constexpr Parameter kParameters[] = {
    {.name = "hir",
     .type = Parameter::Type::number,
     .default_value = "0.01",
     .help = "part of the capacity for items that are not known to come back soon",
     .least = 0,
     .greatest = 1},
    {.name = "ghost",
     .type = Parameter::Type::number,
     .default_value = "1",
     .help = "bound of the items remembered after they left, as a part of the capacity",
     .least = 0,
     .greatest = 1000},
};

}  // namespace

extern const engine::PolicyEntry eviction_lirs;
constexpr engine::PolicyEntry eviction_lirs{
    "lirs",
    "Keeps the items that come back soonest.\n"
    "All others pass through a small queue; items larger than that queue are\n"
    "not kept (SIGMETRICS 2002).",
    &make_eviction<Lirs>, kParameters};

}  // namespace batchflow::policies
