// Earliest deadline: the job that will run out of blocks first is served first.
#include "core/policy_list.h"
#include "policies/dispatch_choose.h"
#include "policies/make.h"

namespace batchflow {
namespace {

class EarliestDeadline final : public DispatchPolicy {
 public:
  explicit EarliestDeadline(const PolicyContext&) {}

  std::size_t next(const DispatchView& view) override {
    return first_candidate(view.candidates, [](const WorkCandidate& a, const WorkCandidate& b) {
      return a.deadline < b.deadline;
    });
  }
};

}  // namespace

extern const PolicyEntry dispatch_earliest_deadline;
const PolicyEntry dispatch_earliest_deadline{
    "earliest-deadline",
    "The job that will run out of blocks first is served first.\n"
    "When that is follows from its measured speed.",
    &make_policy<DispatchPolicy, EarliestDeadline>};

}  // namespace batchflow
