// SIEVE: a FIFO with a hand that moves from old to new. The hand clears bits, and removes the first
// item without a bit; survivors keep their position.
//
// Y. Zhang, J. Yang, Y. Yue, Y. Vigfusson, K. V. Rashmi, "SIEVE is Simpler than LRU", NSDI 2024.
#include "core/engine/policy_list.h"
#include "policies/eviction_list.h"

namespace batchflow::policies {
namespace {

class Sieve final : public MarkedListEviction {
 public:
  using MarkedListEviction::MarkedListEviction;
  void removed(ItemId item, engine::Removal) override { take(item); }
  void pinned(ItemId item) override { take(item); }
  ItemId victim(const engine::Access&) override {
    if (hand_.is_none()) hand_ = list_.oldest();
    while (!hand_.is_none() && used_[hand_.value] != 0) {
      used_[hand_.value] = 0;
      hand_ = list_.newer(hand_);
      if (hand_.is_none()) hand_ = list_.oldest();
    }
    return hand_;
  }

 private:
  void take(ItemId item) {
    if (item == hand_) hand_ = list_.newer(item);
    list_.take(item);
  }

  ItemId hand_ = ItemId::none();
};

}  // namespace

extern const engine::PolicyEntry eviction_sieve;
constexpr engine::PolicyEntry eviction_sieve{
    "sieve",
    "FIFO with a hand that spares what was used.\n"
    "The hand skips and unmarks what was used, and evicts in place: old items\n"
    "that are used stay old, new ones are tried quickly (NSDI 2024).",
    &make_eviction<Sieve>};

}  // namespace batchflow::policies
