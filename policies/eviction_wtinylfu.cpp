// W-TinyLFU: newcomers pass a small LRU window. An item that falls out of the window enters the
// main part, a segmented LRU, only if it was used more often of late than the item that would have
// to leave.
//
// G. Einziger, R. Friedman, B. Manes, "TinyLFU: A Highly Efficient Cache Admission Policy", ACM
// Transactions on Storage 2017. There a sketch estimates the uses; ids are dense here, so each has
// four bits of its own and nothing collides.
//
// A use is each of these: to come in, to stand in a contest, to enter the main part, and each hit
// in the main part. A burst inside the window is one use, however long it is. An item that won
// against another keeps its slot against the next with as many uses; without this rule, permuted
// epochs would replace everything.
#include <algorithm>

#include "core/engine/policy_list.h"
#include "policies/dense_list.h"
#include "policies/eviction_list.h"

namespace batchflow::policies {
namespace {

// Recent uses: four bits an item, halved after each period. An item is halved when it is looked at,
// so that no access pays for all items.
class RecentUses {
 public:
  explicit RecentUses(std::size_t items) : entries_(items) {}
  void grow(std::size_t items) { entries_.grow(items); }

  void count(ItemId item) {
    const unsigned now = std::min(uses(item) + 1, kMost);
    entries_[item.value] = static_cast<std::uint16_t>(period_ << kBits | now);
  }
  unsigned uses(ItemId item) const {
    const std::uint16_t entry = entries_[item.value];
    const unsigned halvings = (period_ - (entry >> kBits)) & kPeriodMask;
    return halvings < kBits ? (entry & kMost) >> halvings : 0;
  }
  void forget(ItemId item) { entries_[item.value] = 0; }
  void next_period() { period_ = (period_ + 1) & kPeriodMask; }

 private:
  static constexpr unsigned kBits = 4;
  static constexpr unsigned kMost = (1u << kBits) - 1;
  static constexpr unsigned kPeriodMask = (1u << (16 - kBits)) - 1;

  ZeroArray<std::uint16_t> entries_;  // the period of the last use, and the uses up to it
  unsigned period_ = 0;
};

enum List : unsigned { kWindow, kProbation, kProtected, kLists };
constexpr std::uint64_t kUsesPerResident = 32;  // in one period

class WTinyLfu final : public engine::EvictionPolicy {
 public:
  explicit WTinyLfu(const engine::EvictionContext& context)
      : window_ratio_(context.parameters.number("window")),
        protected_ratio_(context.parameters.number("protected")),
        lists_(context.items),
        uses_(context.items) {
    WTinyLfu::resized(context.capacity);
  }

  void hit(const engine::Access& access) override {
    if (lists_.in(access.item, kWindow)) {
      lists_.move(access.item, kWindow);
      return;
    }
    count(access.item);
    lists_.move(access.item, kProtected);
    while (lists_.used(kProtected) > protected_ && !lists_.empty(kProtected)) {
      lists_.move(lists_.oldest(kProtected), kProbation);
    }
  }
  // An item that does not fit the window can never be tried, so it is kept out.
  engine::Admission missed(const engine::Access& access) override {
    return access.slots > window_ ? engine::Admission::bypass : engine::Admission::insert;
  }
  void inserted(const engine::Access& access) override {
    ++residents_;
    count(access.item);
    lists_.add(access.item, access.slots, kWindow);
    while (lists_.used(kWindow) > window_ && !lists_.empty(kWindow)) {
      enter_main(lists_.oldest(kWindow));
    }
  }
  ItemId victim(const engine::Access& newcomer) override {
    full_before_ = true;
    const ItemId in_main = main_victim();
    while (lists_.used(kWindow) + newcomer.slots > window_) {
      const ItemId candidate = oldest_to_leave(lists_, kWindow);
      if (candidate.is_none()) break;
      if (lists_.used(kProbation) + lists_.used(kProtected) + lists_.slots(candidate) > main_) {
        const bool wins = !in_main.is_none() && uses_.uses(candidate) > uses_.uses(in_main);
        count(candidate);
        return wins ? in_main : candidate;
      }
      enter_main(candidate);  // there is room, no contest
    }
    const ItemId item = main_victim();
    return item.is_none() ? oldest_to_leave(lists_, kWindow) : item;
  }
  void removed(ItemId item, engine::Removal) override {
    --residents_;
    lists_.take(item);
  }
  void pinned(ItemId item) override { lists_.put_aside(item); }
  void unpinned(ItemId item) override { lists_.bring_back(item); }
  void resized(Slots capacity) override {
    window_ = std::max<Slots>(1, static_cast<Slots>(static_cast<double>(capacity) * window_ratio_));
    main_ = capacity > window_ ? capacity - window_ : 0;
    protected_ = static_cast<Slots>(static_cast<double>(main_) * protected_ratio_);
  }
  void grow(std::size_t items) override {
    lists_.grow(items);
    uses_.grow(items);
  }
  void forget(ItemId item) override { uses_.forget(item); }

 private:
  void count(ItemId item) {
    uses_.count(item);
    // Until the cache was full once there is no contest, and the number of residents means nothing.
    if (++counted_ < kUsesPerResident * residents_ || !full_before_) return;
    counted_ = 0;
    uses_.next_period();
  }
  // While the main part fills, items that do not fit into probation are protected: the first items
  // to come are as good as any.
  void enter_main(ItemId item) {
    count(item);
    const Slots slots = lists_.slots(item);
    const bool probation = lists_.used(kProbation) + slots <= main_ - protected_;
    const bool all_protected = lists_.used(kProtected) + slots > protected_;
    lists_.move(item, probation || all_protected ? kProbation : kProtected);
  }
  ItemId main_victim() const {
    if (const auto item = oldest_to_leave(lists_, kProbation); !item.is_none()) return item;
    return oldest_to_leave(lists_, kProtected);
  }

  const double window_ratio_;
  const double protected_ratio_;
  Slots window_ = 0;
  Slots main_ = 0;
  Slots protected_ = 0;  // part of main_
  Segments<kLists> lists_;
  RecentUses uses_;
  std::uint64_t residents_ = 0;
  std::uint64_t counted_ = 0;
  bool full_before_ = false;
};

constexpr Parameter kParameters[] = {
    {.name = "window",
     .type = Parameter::Type::number,
     .default_value = "0.01",
     .help = "part of the capacity for newcomers",
     .least = 0,
     .greatest = 1},
    {.name = "protected",
     .type = Parameter::Type::number,
     .default_value = "0.8",
     .help = "fraction of the main part for items used again in it",
     .least = 0,
     .greatest = 1},
};

}  // namespace

extern const engine::PolicyEntry eviction_wtinylfu;
constexpr engine::PolicyEntry eviction_wtinylfu{
    "wtinylfu",
    "Newcomers stay only if used more often than what must leave.\n"
    "They pass a small window first, and uses of late count; items larger than\n"
    "the window are not kept (ACM TOS 2017).",
    &make_eviction<WTinyLfu>, kParameters};

}  // namespace batchflow::policies
