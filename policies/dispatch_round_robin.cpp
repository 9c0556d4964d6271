// Round-robin: the job with the oldest turn is served first.
#include "core/policy_list.h"
#include "policies/dispatch_choose.h"
#include "policies/make.h"

namespace batchflow {
namespace {

class RoundRobin final : public DispatchPolicy {
 public:
  explicit RoundRobin(const PolicyContext&) {}

  std::size_t next(const DispatchView& view) override {
    return first_candidate(view.candidates, had_turn_before);
  }
};

}  // namespace

extern const PolicyEntry dispatch_round_robin;
const PolicyEntry dispatch_round_robin{"round-robin",
                                       "The job whose last turn is longest ago is served first.",
                                       &make_policy<DispatchPolicy, RoundRobin>};

}  // namespace batchflow
