// Bounded lag: no job may lead the slowest of its stream by more than `blocks`.
#include "core/engine/policy_list.h"
#include "policies/dispatch_choose.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    {"blocks", Parameter::Type::integer, "64", "how many blocks a job may be ahead of the slowest",
     1, 1e9},
};

class BoundedLag final : public engine::DispatchPolicy {
 public:
  explicit BoundedLag(const engine::PolicyContext& context)
      : blocks_(static_cast<std::uint32_t>(context.parameters.integer("blocks"))) {}

  std::size_t next(const engine::DispatchView& view) override {
    return first_candidate(
        view.candidates,
        [](const engine::WorkCandidate& a, const engine::WorkCandidate& b) {
          return a.deadline < b.deadline;
        },
        [&](const engine::WorkCandidate& candidate) { return candidate.lead < blocks_; });
  }

 private:
  std::uint32_t blocks_;
};

}  // namespace

extern const engine::PolicyEntry dispatch_bounded_lag;
constexpr engine::PolicyEntry dispatch_bounded_lag{
    "bounded-lag",
    "Earliest deadline first, but no job runs too far ahead.\n"
    "Holds back a job that is too many blocks ahead of the slowest job of its\n"
    "stream: prepared blocks are shared by all, at the speed of the slowest.",
    &make_policy<engine::DispatchPolicy, BoundedLag>, kParameters};

}  // namespace batchflow::policies
