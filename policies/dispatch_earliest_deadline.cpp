// Earliest deadline: the job that will run out of blocks first is served first.
#include "core/engine/policy_list.h"
#include "policies/dispatch_choose.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

class EarliestDeadline final : public engine::DispatchPolicy {
 public:
  explicit EarliestDeadline(const engine::PolicyContext&) {}

  std::size_t next(const engine::DispatchView& view) override {
    return first_candidate(view.candidates,
                           [](const engine::WorkCandidate& a, const engine::WorkCandidate& b) {
                             return a.deadline < b.deadline;
                           });
  }
};

}  // namespace

extern const engine::PolicyEntry dispatch_earliest_deadline;
constexpr engine::PolicyEntry dispatch_earliest_deadline{
    "earliest-deadline",
    "The job that will run out of blocks first is served first.\n"
    "When that is follows from its measured speed.",
    &make_policy<engine::DispatchPolicy, EarliestDeadline>};

}  // namespace batchflow::policies
