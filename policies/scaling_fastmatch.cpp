// FastMatch's resource matching: workers follow the difference of what is consumed and produced.
//
// "FastMatch", Algorithm 2: while production differs from consumption by more than a threshold,
// workers change by the difference over what one of them makes. It is done once a period, in place
// of once an epoch, so that jobs with epochs of different length are matched alike.
#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/saturating.h"
#include "core/engine/policy_list.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    {"period_s", Parameter::Type::number, "10", "seconds from one matching to the next", 0.01,
     3600},
    {"threshold", Parameter::Type::number, "0.05",
     "the part of consumption by which production may differ", 0.001, 1},
    {"depth", Parameter::Type::integer, "8",
     "blocks kept ready or in preparation ahead of each rank", 1, 4096},
};

class FastMatch final : public engine::ScalingPolicy {
 public:
  explicit FastMatch(const engine::PolicyContext& context)
      : period_(static_cast<std::int64_t>(context.parameters.number("period_s") * 1e9)),
        threshold_(context.parameters.number("threshold")),
        depth_(static_cast<std::uint32_t>(context.parameters.integer("depth"))) {}

  std::uint32_t workers(const engine::NodeView& view) override {
    Match& match = matches_[view.node];
    const double at_work = view.busy_part * view.workers_now;
    if (view.now >= match.next && view.made_per_s > 0 && view.wanted_per_s > 0 && at_work > 0) {
      match.next = after(view.now, period_);
      const double each = view.made_per_s / at_work;
      const double missing = view.wanted_per_s - each * match.workers;
      if (std::abs(missing) > threshold_ * view.wanted_per_s) {
        const double wanted = match.workers + std::ceil(missing / each);
        const double most = std::max(1u, view.workers_most);
        match.workers = static_cast<std::uint32_t>(std::clamp(wanted, 1.0, most));
      }
    }
    return std::min(match.workers, view.workers_most);
  }
  std::uint32_t depth(const engine::JobView& view) override {
    return static_cast<std::uint32_t>(
        std::min(std::uint64_t{depth_} * view.ranks, std::uint64_t{view.window}));
  }

 private:
  struct Match {
    std::uint32_t workers = 1;
    Instant next{};
  };
  Duration period_;
  double threshold_;
  std::uint32_t depth_;
  std::map<NodeId, Match> matches_;
};

}  // namespace

extern const engine::PolicyEntry scaling_fastmatch;
constexpr engine::PolicyEntry scaling_fastmatch{
    "fastmatch",
    "Workers follow what jobs consume beyond what is produced.\n"
    "The difference over what one worker makes is added, once a period\n"
    "(FastMatch, Algorithm 2).\n"
    "Departs from it: it is done once a period, not once an epoch.",
    &make_policy<engine::ScalingPolicy, FastMatch>, kParameters};

}  // namespace batchflow::policies
