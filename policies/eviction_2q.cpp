// 2Q: a FIFO of newcomers, a ghost FIFO of items that left it, and an LRU for items that are asked
// for again.
//
// T. Johnson, D. Shasha, "2Q: A Low Overhead High Performance Buffer Management Replacement
// Algorithm", VLDB 1994 (the full version).
#include "core/engine/policy_list.h"
#include "policies/dense_list.h"
#include "policies/eviction_list.h"
#include "policies/ghost_queue.h"

namespace batchflow::policies {
namespace {

enum List : unsigned { kIn, kOut, kMain, kLists };

class TwoQ final : public engine::EvictionPolicy {
 public:
  explicit TwoQ(const engine::EvictionContext& context)
      : in_ratio_(context.parameters.number("in")),
        out_ratio_(context.parameters.number("out")),
        lists_(context.items) {
    TwoQ::resized(context.capacity);
  }

  void hit(const engine::Access& access) override {
    if (lists_.in(access.item, kMain)) lists_.move(access.item, kMain);
  }
  engine::Admission missed(const engine::Access& access) override {
    to_main_ = lists_.in(access.item, kOut);
    if (to_main_) lists_.take(access.item);
    if (access.slots > in_) return engine::Admission::bypass;
    return to_main_ ? engine::Admission::trim_and_insert : engine::Admission::insert;
  }
  void inserted(const engine::Access& access) override {
    lists_.add(access.item, access.slots, to_main_ ? kMain : kIn);
    to_main_ = false;
  }
  // Asked again when there is room: an item on its way to the main part makes room for itself
  // there, too.
  ItemId victim(const engine::Access& newcomer) override {
    if (lists_.used(kIn) + lists_.used(kMain) + newcomer.slots <= capacity_) {
      if (!to_main_ || lists_.used(kMain) + newcomer.slots <= main_) return ItemId::none();
      return oldest_to_leave(lists_, kMain);
    }
    const bool from_in = lists_.used(kIn) > in_;
    if (const auto item = oldest_to_leave(lists_, from_in ? kIn : kMain); !item.is_none())
      return item;
    return oldest_to_leave(lists_, from_in ? kMain : kIn);
  }
  void removed(ItemId item, engine::Removal why) override {
    const bool remember = why == engine::Removal::evicted && lists_.in(item, kIn);
    if (remember && out_.make_room(lists_, lists_.slots(item))) {
      lists_.move(item, kOut);
    } else {
      lists_.take(item);
    }
  }
  void pinned(ItemId item) override { lists_.put_aside(item); }
  void unpinned(ItemId item) override { lists_.bring_back(item); }
  void resized(Slots capacity) override {
    capacity_ = capacity;
    in_ = static_cast<Slots>(static_cast<double>(capacity) * in_ratio_);
    main_ = capacity - in_;
    out_.resize(lists_, static_cast<Slots>(static_cast<double>(capacity) * out_ratio_));
  }
  void grow(std::size_t items) override { lists_.grow(items); }
  void forget(ItemId item) override {
    if (lists_.in(item, kOut)) lists_.take(item);
  }

 private:
  const double in_ratio_;
  const double out_ratio_;
  Slots capacity_ = 0;
  Slots in_ = 0;
  Slots main_ = 0;
  GhostQueue<kOut> out_;
  Segments<kLists> lists_;
  bool to_main_ = false;  // the item asked for last was in the ghost queue
};

constexpr Parameter kParameters[] = {
    {.name = "in",
     .type = Parameter::Type::number,
     .default_value = "0.25",
     .help = "part of the capacity for newcomers",
     .least = 0,
     .greatest = 1},
    {.name = "out",
     .type = Parameter::Type::number,
     .default_value = "0.5",
     .help = "size of the ghost queue as a part of the capacity",
     .least = 0,
     .greatest = 100},
};

}  // namespace

extern const engine::PolicyEntry eviction_2q;
constexpr engine::PolicyEntry eviction_2q{
    "2q",
    "Newcomers wait in a FIFO beside an LRU of what came back.\n"
    "An item enters the LRU when it is asked for again soon after it left the\n"
    "FIFO. Items larger than the part for newcomers are not kept (VLDB 1994).",
    &make_eviction<TwoQ>, kParameters};

}  // namespace batchflow::policies
