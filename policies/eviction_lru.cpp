// LRU: the item that was not used for the longest time leaves.
#include "core/engine/policy_list.h"
#include "policies/eviction_list.h"

namespace batchflow::policies {
namespace {

class Lru final : public OneListEviction {
 public:
  using OneListEviction::OneListEviction;
  void hit(const engine::Access& access) override { list_.move_to_newest(access.item); }
  ItemId victim(const engine::Access&) override { return oldest_to_leave(list_); }
};

}  // namespace

extern const engine::PolicyEntry eviction_lru;
constexpr engine::PolicyEntry eviction_lru{
    "lru",
    "Least recently used leaves.\n"
    "On permuted epochs the item that leaves is the one needed soonest: use it\n"
    "as the yardstick.",
    &make_eviction<Lru>};

}  // namespace batchflow::policies
