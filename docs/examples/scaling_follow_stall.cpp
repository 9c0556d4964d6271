// Follow stall: a worker more while jobs stall, one less while workers are idle.
#include <algorithm>

#include "core/policy_list.h"
#include "policies/make.h"

namespace batchflow {
namespace {

constexpr Parameter kParameters[] = {
    {"stall", Parameter::Type::number, "0.05", "share of the time that jobs may stall", 0, 1},
};

class FollowStall final : public ScalingPolicy {
 public:
  explicit FollowStall(const PolicyContext& context) : stall_(context.parameters.number("stall")) {}

  std::uint32_t workers(const NodeView& node) override {
    if (node.workers_now == 0) return std::min(1u, node.workers_most);
    if (node.stall_fraction > stall_) return std::min(node.workers_now + 1, node.workers_most);
    const bool idle = node.busy < node.workers_now && node.workers_now > 1;
    return node.workers_now - idle;
  }
  std::uint32_t depth(const JobView& job) override {
    return std::min(job.stall_fraction > stall_ ? 8u : 2u, job.window);
  }

 private:
  double stall_;
};

}  // namespace

extern const PolicyEntry scaling_follow_stall;
const PolicyEntry scaling_follow_stall{"follow-stall",
                                       "A worker more while jobs stall, one less while they idle.\n"
                                       "Jobs that stall are looked further ahead for.",
                                       &make_policy<ScalingPolicy, FollowStall>, kParameters};

}  // namespace batchflow
