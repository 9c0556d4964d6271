// FIFO: the item that came first leaves first.
#include "core/policy_list.h"
#include "policies/eviction_list.h"

namespace batchflow {
namespace {

class Fifo final : public OneListEviction {
 public:
  using OneListEviction::OneListEviction;
  ItemId victim(const Access&) override { return oldest_to_leave(list_); }
};

}  // namespace

extern const PolicyEntry eviction_fifo;
const PolicyEntry eviction_fifo{
    "fifo", "The item inserted earliest leaves, however often it is used.", &make_eviction<Fifo>};

}  // namespace batchflow
