// SLRU: four LRU segments of equal size. Newcomers start in the lowest, a hit moves an item one
// segment up, and an item that overflows its segment falls one down. An item larger than a segment
// is not kept.
//
// R. Karedla, J. S. Love, B. G. Wherry, "Caching strategies to improve disk system performance",
// Computer 1994 (there with two segments).
#include <algorithm>

#include "core/engine/policy_list.h"
#include "policies/dense_list.h"
#include "policies/eviction_list.h"

namespace batchflow::policies {
namespace {

constexpr unsigned kSegments = 4;

class Slru final : public engine::EvictionPolicy {
 public:
  explicit Slru(const engine::EvictionContext& context)
      : lists_(context.items), segment_(context.capacity / kSegments) {}

  void hit(const engine::Access& access) override {
    const unsigned to = std::min(lists_.list_of(access.item) + 1, kSegments - 1);
    lists_.move(access.item, to);
    for (unsigned list = to; list > 0; --list) {
      while (lists_.used(list) > segment_ && !lists_.empty(list)) {
        lists_.move(lists_.oldest(list), list - 1);
      }
    }
  }
  engine::Admission missed(const engine::Access& access) override {
    return access.slots > segment_ ? engine::Admission::bypass : engine::Admission::insert;
  }
  // While the share fills, the lowest segment that has room; later that is the lowest of all.
  void inserted(const engine::Access& access) override {
    unsigned list = 0;
    while (list < kSegments && lists_.used(list) + access.slots > segment_) ++list;
    lists_.add(access.item, access.slots, list < kSegments ? list : 0);
  }
  ItemId victim(const engine::Access&) override {
    for (unsigned list = 0; list < kSegments; ++list) {
      if (const auto item = oldest_to_leave(lists_, list); !item.is_none()) return item;
    }
    return ItemId::none();
  }
  void removed(ItemId item, engine::Removal) override { lists_.take(item); }
  void pinned(ItemId item) override { lists_.put_aside(item); }
  void unpinned(ItemId item) override { lists_.bring_back(item); }
  // A segment that is too large now loses its oldest items as hits push others in.
  void resized(Slots capacity) override { segment_ = capacity / kSegments; }
  void grow(std::size_t items) override { lists_.grow(items); }
  void forget(ItemId) override {}

 private:
  Segments<kSegments> lists_;
  Slots segment_;
};

}  // namespace

extern const engine::PolicyEntry eviction_slru;
constexpr engine::PolicyEntry eviction_slru{
    "slru",
    "Four LRU segments, through which items rise by hits.\n"
    "A hit moves an item one segment up, what overflows falls one down: items\n"
    "must be used several times to outlive a scan.",
    &make_eviction<Slru>};

}  // namespace batchflow::policies
