// ARC: two LRU lists, of items used once and of items used again, each with a ghost list. Hits in
// the ghost lists move the border between them.
//
// N. Megiddo, D. S. Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003; here
// for items of any size: lists are measured in slots.
#include <algorithm>

#include "core/engine/policy_list.h"
#include "policies/dense_list.h"
#include "policies/eviction_list.h"

namespace batchflow::policies {
namespace {

enum List : unsigned { kOnce, kAgain, kOnceGhost, kAgainGhost, kLists };  // T1, T2, B1, B2

class Arc final : public engine::EvictionPolicy {
 public:
  explicit Arc(const engine::EvictionContext& context)
      : lists_(context.items), capacity_(context.capacity) {}

  void hit(const engine::Access& access) override { lists_.move(access.item, kAgain); }

  engine::Admission missed(const engine::Access& access) override {
    ghost_ = kLists;
    if (!lists_.in_any(access.item)) return engine::Admission::insert;
    ghost_ = static_cast<List>(lists_.list_of(access.item));
    const auto once = static_cast<double>(lists_.used(kOnceGhost));
    const auto again = static_cast<double>(lists_.used(kAgainGhost));
    if (ghost_ == kOnceGhost) {
      target_ = std::min(target_ + std::max(1.0, again / once), static_cast<double>(capacity_));
    } else {
      target_ = std::max(target_ - std::max(1.0, once / again), 0.0);
    }
    lists_.take(access.item);
    return engine::Admission::insert;
  }

  void inserted(const engine::Access& access) override {
    lists_.add(access.item, access.slots, ghost_ == kLists ? kOnce : kAgain);
    ghost_ = kLists;
  }

  ItemId victim(const engine::Access& newcomer) override {
    keep_ghost_ = true;
    if (ghost_ == kLists) {
      if (lists_.used(kOnce) + lists_.used(kOnceGhost) + newcomer.slots > capacity_) {
        if (lists_.empty(kOnceGhost)) {
          keep_ghost_ = false;
          if (const auto item = oldest_to_leave(lists_, kOnce); !item.is_none()) return item;
        } else {
          lists_.take(lists_.oldest(kOnceGhost));
        }
      } else if (all_used() >= 2 * capacity_ && !lists_.empty(kAgainGhost)) {
        lists_.take(lists_.oldest(kAgainGhost));
      }
    }
    return replaced();
  }

  void removed(ItemId item, engine::Removal why) override {
    if (why == engine::Removal::evicted && keep_ghost_) {
      lists_.move(item, lists_.in(item, kOnce) ? kOnceGhost : kAgainGhost);
    } else {
      lists_.take(item);
    }
  }
  void pinned(ItemId item) override { lists_.put_aside(item); }
  void unpinned(ItemId item) override { lists_.bring_back(item); }
  void resized(Slots capacity) override {
    capacity_ = capacity;
    target_ = std::min(target_, static_cast<double>(capacity));
  }
  void grow(std::size_t items) override { lists_.grow(items); }
  void forget(ItemId item) override {
    if (lists_.in_any(item)) lists_.take(item);
  }

 private:
  ItemId replaced() {
    const auto once = static_cast<double>(lists_.used(kOnce));
    const bool from_once =
        (once > 0 && (once > target_ || (once == target_ && ghost_ == kAgainGhost))) ||
        lists_.empty(kAgain);
    if (const auto item = oldest_to_leave(lists_, from_once ? kOnce : kAgain); !item.is_none())
      return item;
    return oldest_to_leave(lists_, from_once ? kAgain : kOnce);
  }
  Slots all_used() const {
    return lists_.used(kOnce) + lists_.used(kAgain) + lists_.used(kOnceGhost) +
           lists_.used(kAgainGhost);
  }

  Segments<kLists> lists_;
  Slots capacity_;
  double target_ = 0;       // p: the slots wanted for items used once
  List ghost_ = kLists;     // where the item asked for last was remembered; kLists: nowhere
  bool keep_ghost_ = true;  // of the victim named last
};

}  // namespace

extern const engine::PolicyEntry eviction_arc;
constexpr engine::PolicyEntry eviction_arc{
    "arc",
    "Balances recency against frequency by itself.\n"
    "Two LRU lists; their ghosts move the border between them. It has no\n"
    "parameters (FAST 2003).",
    &make_eviction<Arc>};

}  // namespace batchflow::policies
