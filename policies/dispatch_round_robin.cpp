// Round-robin: the job with the oldest turn is served first.
#include "core/engine/policy_list.h"
#include "policies/dispatch_choose.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

class RoundRobin final : public engine::DispatchPolicy {
 public:
  explicit RoundRobin(const engine::PolicyContext&) {}

  std::size_t next(const engine::DispatchView& view) override {
    return first_candidate(view.candidates, had_turn_before);
  }
};

}  // namespace

extern const engine::PolicyEntry dispatch_round_robin;
const engine::PolicyEntry dispatch_round_robin{
    "round-robin", "Serves the job that has waited longest since its last turn.",
    &make_policy<engine::DispatchPolicy, RoundRobin>};

}  // namespace batchflow::policies
