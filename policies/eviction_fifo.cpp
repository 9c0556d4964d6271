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
constexpr engine::PolicyEntry eviction_fifo{
    .name = "fifo",
    .help = "The item inserted earliest leaves, however often it is used.",
    .make = &make_eviction<Fifo>,
    .ignores_hits = true};

}  // namespace batchflow::policies
