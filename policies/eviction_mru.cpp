// MRU: the item that was used last leaves.
#include "core/engine/policy_list.h"
#include "policies/eviction_list.h"

namespace batchflow::policies {
namespace {

class Mru final : public OneListEviction {
 public:
  using OneListEviction::OneListEviction;
  void hit(const engine::Access& access) override { list_.move_to_newest(access.item); }
  ItemId victim(const engine::Access&) override { return list_.newest(); }
  void unpinned(ItemId item) override { list_.add_newest(item); }
};

}  // namespace

extern const engine::PolicyEntry eviction_mru;
constexpr engine::PolicyEntry eviction_mru{
    "mru",
    "Most recently used leaves.\n"
    "Near the best possible for one job that reads each sample once an epoch;\n"
    "bad for most else.",
    &make_eviction<Mru>};

}  // namespace batchflow::policies
