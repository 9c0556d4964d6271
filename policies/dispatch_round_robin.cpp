// Round-robin: the job for which the least has been started is served first.
#include "core/policy_list.h"
#include "policies/dispatch_choose.h"
#include "policies/make.h"

namespace batchflow {
namespace {

class RoundRobin final : public DispatchPolicy {
 public:
  explicit RoundRobin(const PolicyContext&) {}

  std::size_t next(const DispatchView& view) override {
    return first_candidate(view.candidates, [](const WorkCandidate& a, const WorkCandidate& b) {
      return a.served < b.served;
    });
  }
};

}  // namespace

extern const PolicyEntry dispatch_round_robin;
const PolicyEntry dispatch_round_robin{"round-robin",
                                       "The job with the fewest blocks started is served first.",
                                       &make_policy<DispatchPolicy, RoundRobin>};

}  // namespace batchflow
