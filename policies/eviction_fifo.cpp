// FIFO: the item that came first leaves first.
#include "core/engine/policy_list.h"
#include "policies/eviction_list.h"

namespace batchflow::policies {
namespace {

class Fifo final : public OneListEviction {
 public:
  using OneListEviction::OneListEviction;
  ItemId victim(const engine::Access&) override { return oldest_to_leave(list_); }
};

}  // namespace

extern const engine::PolicyEntry eviction_fifo;
const engine::PolicyEntry eviction_fifo{
    "fifo", "The item inserted earliest leaves, however often it is used.", &make_eviction<Fifo>};

}  // namespace batchflow::policies
