// Follow stall: a worker more while jobs stall, one less while workers are idle.
#include <algorithm>

#include "core/engine/policy_list.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    {"stall", Parameter::Type::number, "0.05", "part of the time that jobs may stall", 0, 1},
};

class FollowStall final : public engine::ScalingPolicy {
 public:
  explicit FollowStall(const engine::PolicyContext& context)
      : stall_(context.parameters.number("stall")) {}

  std::uint32_t workers(const engine::NodeView& node) override {
    if (node.workers_now == 0) return std::min(1u, node.workers_most);
    if (node.stall_fraction > stall_) return std::min(node.workers_now + 1, node.workers_most);
    const bool idle = node.busy < node.workers_now && node.workers_now > 1;
    return node.workers_now - idle;
  }
  std::uint32_t depth(const engine::JobView& job) override {
    return std::min(job.stall_fraction > stall_ ? 8u : 2u, job.window);
  }

 private:
  double stall_;
};

}  // namespace

extern const engine::PolicyEntry scaling_follow_stall;
constexpr engine::PolicyEntry scaling_follow_stall{
    "follow-stall",
    "A worker more while jobs stall, one less while they idle.\n"
    "Jobs that stall are looked further ahead for.",
    &make_policy<engine::ScalingPolicy, FollowStall>, kParameters};

}  // namespace batchflow::policies
