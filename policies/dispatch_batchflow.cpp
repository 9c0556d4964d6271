// BatchFlow's own: the least slack comes first, by weight.
//
// Slack is the time until a job is expected to need its block, and the time that it may then wait
// without harm (its latency target). A job of twice the weight is served as if it had half the
// slack, and once that is over, as if it had waited twice as long. The wait of a job grows until it
// is served, so no job starves.
#include <chrono>

#include "core/base/saturating.h"
#include "core/engine/policy_list.h"
#include "policies/dispatch_choose.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

class BatchFlow final : public engine::DispatchPolicy {
 public:
  explicit BatchFlow(const engine::PolicyContext&) {}

  std::size_t next(const engine::DispatchView& view) override {
    return first_candidate(view.candidates,
                           [&](const engine::WorkCandidate& a, const engine::WorkCandidate& b) {
                             return weighted_slack(a, view.now) < weighted_slack(b, view.now);
                           });
  }

 private:
  static double weighted_slack(const engine::WorkCandidate& candidate, Instant now) {
    const Instant latest = after(candidate.deadline, candidate.latency_target);
    const double slack = std::chrono::duration<double>(latest - now).count();
    return slack > 0 ? slack / candidate.weight : slack * candidate.weight;
  }
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
