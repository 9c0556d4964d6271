// CLOCK: a FIFO with one bit an item; a hit sets the bit, which gives the item another round.
#include "core/engine/policy_list.h"
#include "policies/eviction_list.h"

namespace batchflow::policies {
namespace {

class Clock final : public MarkedListEviction {
 public:
  using MarkedListEviction::MarkedListEviction;
  ItemId victim(const engine::Access&) override {
    ItemId item = list_.oldest();
    for (; !item.is_none() && used_[item.value] != 0; item = list_.oldest()) {
      used_[item.value] = 0;
      list_.move_to_newest(item);
    }
    return item;
  }
};

}  // namespace

extern const engine::PolicyEntry eviction_clock;
constexpr engine::PolicyEntry eviction_clock{
    "clock",
    "FIFO with a second chance for what was used.\n"
    "An item that was used since it came or was last passed over goes round\n"
    "again.",
    &make_eviction<Clock>};

}  // namespace batchflow::policies
