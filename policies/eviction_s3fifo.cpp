// S3-FIFO: a small FIFO that most items leave unused, a main FIFO for items used again, and a ghost
// FIFO that remembers items that left the small one.
//
// J. Yang, Y. Zhang, Z. Qiu, Y. Yue, K. V. Rashmi, "FIFO queues are all you need for cache
// eviction", SOSP 2023.
#include <algorithm>

#include "core/engine/policy_list.h"
#include "policies/dense_list.h"
#include "policies/eviction_list.h"
#include "policies/ghost_queue.h"

namespace batchflow::policies {
namespace {

enum List : unsigned { kSmall, kMain, kGhost, kLists };
constexpr std::uint8_t kMostUses = 255;  // no rule looks beyond three
constexpr std::uint8_t kUsesForMain = 2;

class S3Fifo : public engine::EvictionPolicy {
 public:
  explicit S3Fifo(const engine::EvictionContext& context)
      : small_ratio_(context.parameters.number("small")),
        ghost_ratio_(context.parameters.number("ghost")),
        lists_(context.items) {
    S3Fifo::resized(context.capacity);
  }

  void hit(const engine::Access& access) override {
    std::uint8_t& uses = lists_.mark(access.item);
    if (uses < kMostUses) ++uses;
  }

  engine::Admission missed(const engine::Access& access) override {
    to_main_ = lists_.in(access.item, kGhost);
    if (to_main_) lists_.take(access.item);
    if (access.slots > small_) return engine::Admission::bypass;
    return access.slots == small_ ? engine::Admission::make_room : engine::Admission::insert;
  }

  void inserted(const engine::Access& access) override {
    lists_.add(access.item, access.slots, to_main_ || overflows_to_main() ? kMain : kSmall);
    to_main_ = false;
  }

  ItemId victim(const engine::Access&) override {
    evicted_before_ = true;
    // Where all items of one queue are pinned, or have moved on, the other queue has the victim.
    for (const int round : {0, 1, 2}) {
      const bool too_large = round == 0 && lists_.used(kMain) > main_;
      const bool from_main = too_large || lists_.empty(kSmall);
      if (const auto item = from_main ? main_victim() : small_victim(); !item.is_none())
        return item;
    }
    return ItemId::none();
  }

  void removed(ItemId item, engine::Removal why) override {
    const bool remember = why == engine::Removal::evicted && lists_.in(item, kSmall);
    if (remember && ghost_.make_room(lists_, lists_.slots(item))) {
      lists_.move(item, kGhost);
    } else {
      lists_.take(item);
    }
  }

  void pinned(ItemId item) override { lists_.put_aside(item); }
  void unpinned(ItemId item) override { lists_.bring_back(item); }
  void resized(Slots capacity) override {
    const auto slots = static_cast<double>(capacity);
    small_ = static_cast<Slots>(slots * small_ratio_);
    main_ = capacity - small_;
    ghost_.resize(lists_, static_cast<Slots>(slots * ghost_ratio_));
  }
  void grow(std::size_t items) override { lists_.grow(items); }
  void forget(ItemId item) override {
    if (lists_.in(item, kGhost)) lists_.take(item);
  }

 protected:
  virtual bool overflows_to_main() const { return false; }
  bool warming_up() const { return !evicted_before_; }
  bool small_is_full() const { return lists_.used(kSmall) >= small_; }

 private:
  // An item that was used twice in the small queue moves on; an item that was not is the victim.
  ItemId small_victim() {
    for (;;) {
      const ItemId item = lists_.oldest(kSmall);
      if (item.is_none() || lists_.mark(item) < kUsesForMain) return item;
      lists_.mark(item) = 0;
      lists_.move(item, kMain);
    }
  }
  // An item that was used goes round once more, which costs it a use.
  ItemId main_victim() {
    for (;;) {
      const ItemId item = lists_.oldest(kMain);
      if (item.is_none() || lists_.mark(item) == 0) return item;
      lists_.mark(item) = static_cast<std::uint8_t>(std::min<int>(lists_.mark(item), 3) - 1);
      lists_.move(item, kMain);
    }
  }

  const double small_ratio_;
  const double ghost_ratio_;
  Slots small_ = 0;
  Slots main_ = 0;
  GhostQueue<kGhost> ghost_;
  Segments<kLists> lists_;  // the mark of a resident counts its uses
  bool to_main_ = false;    // the item asked for last was in the ghost queue
  bool evicted_before_ = false;
};

class S3FifoWarm final : public S3Fifo {
 public:
  using S3Fifo::S3Fifo;

 private:
  bool overflows_to_main() const override { return warming_up() && small_is_full(); }
};

constexpr Parameter kParameters[] = {
    {.name = "small",
     .type = Parameter::Type::number,
     .default_value = "0.1",
     .help = "part of the capacity that is the small queue",
     .least = 0,
     .greatest = 1},
    {.name = "ghost",
     .type = Parameter::Type::number,
     .default_value = "0.9",
     .help = "size of the ghost queue as a part of the capacity",
     .least = 0,
     .greatest = 100},
};

}  // namespace

extern const engine::PolicyEntry eviction_s3fifo;
constexpr engine::PolicyEntry eviction_s3fifo{
    "s3fifo",
    "Three FIFO queues: one filters, one keeps, one remembers.\n"
    "The small one filters newcomers, the main one keeps, a ghost one remembers\n"
    "what left. Items larger than the small queue are not kept (SOSP 2023).",
    &make_eviction<S3Fifo>, kParameters};

extern const engine::PolicyEntry eviction_s3fifo_warm;
constexpr engine::PolicyEntry eviction_s3fifo_warm{
    "s3fifo-warm",
    "S3-FIFO that fills the main queue before it first evicts.\n"
    "On training traces it starts with a cache that is worth keeping.",
    &make_eviction<S3FifoWarm>, kParameters};

}  // namespace batchflow::policies
