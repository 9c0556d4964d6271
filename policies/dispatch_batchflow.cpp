// BatchFlow's own: the least slack comes first, by weight.
#include "core/engine/policy_list.h"
#include "policies/dispatch_choose.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

class BatchFlow final : public engine::DispatchPolicy {
 public:
  explicit BatchFlow(const engine::PolicyContext&) {}

  std::size_t next(const engine::DispatchView& view) override { return least_slack(view); }
};

}  // namespace

extern const engine::PolicyEntry dispatch_batchflow;
constexpr engine::PolicyEntry dispatch_batchflow{
    "batchflow",
    "The least time until a job needs its block, by weight.\n"
    "A job of weight 2 is served as if it had half the time, and waits for a\n"
    "block at most half as long as others. A job with a latency target is\n"
    "served as if it had that much more time.",
    &make_policy<engine::DispatchPolicy, BatchFlow>};

}  // namespace batchflow::policies
