// CLOCK: a FIFO with one bit an item, set by a hit, that buys another round.
#include "core/policy_list.h"
#include "policies/eviction_list.h"

namespace batchflow {
namespace {

class Clock final : public MarkedListEviction {
 public:
  using MarkedListEviction::MarkedListEviction;
  // A pinned item goes round as it is. When the same one comes by for the third time, everyone has
  // been seen without a bit: all are pinned.
  ItemId victim(const Access&, const Pins& pins) override {
    ItemId first_pinned = ItemId::none();
    int meetings = 0;
    for (ItemId item = list_.oldest(); !item.is_none(); item = list_.oldest()) {
      if (used_[item.value] != 0) {
        used_[item.value] = 0;
      } else if (!pins.any() || !pins.pinned(item)) {
        return item;
      } else {
        if (first_pinned.is_none()) first_pinned = item;
        if (item == first_pinned && ++meetings == 3) return ItemId::none();
      }
      list_.move_to_newest(item);
    }
    return ItemId::none();
  }
};

}  // namespace

extern const PolicyEntry eviction_clock;
const PolicyEntry eviction_clock{
    "clock",
    "FIFO with a second chance for what was used.\n"
    "An item that was used since it came or was last passed over goes round\n"
    "again.",
    &make_eviction<Clock>};

}  // namespace batchflow
