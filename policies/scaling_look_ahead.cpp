// Look-ahead: all cores prepare, and each job has as many blocks under way as it uses up in the
// time that one block takes (Little's law), beside a few that are ready.
#include <algorithm>
#include <cmath>

#include "core/engine/policy_list.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    {"ready", Parameter::Type::integer, "4",
     "blocks kept ready for each rank beside those in preparation", 0, 4096},
};

class LookAhead final : public engine::ScalingPolicy {
 public:
  explicit LookAhead(const engine::PolicyContext& context)
      : ready_(static_cast<std::uint32_t>(context.parameters.integer("ready"))) {}

  std::uint32_t workers(const engine::NodeView& view) override { return view.workers_most; }
  std::uint32_t depth(const engine::JobView& view) override {
    // A time that has not been measured yet is 0.
    const double used = view.step_s > 0 ? view.prepare_s * view.blocks_per_step / view.step_s : 0;
    const auto under_way = static_cast<std::uint64_t>(std::ceil(std::min(used, kMost)));
    const std::uint64_t depth = std::uint64_t{ready_} * view.ranks + under_way;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(depth, view.window));
  }

 private:
  static constexpr double kMost = 1e9;
  std::uint32_t ready_;
};

}  // namespace

extern const engine::PolicyEntry scaling_look_ahead;
constexpr engine::PolicyEntry scaling_look_ahead{
    "look-ahead",
    "All cores prepare; look-ahead covers the time a block takes.\n"
    "A job has as many blocks under way as its steps use up in that time, and\n"
    "a few that are ready for each rank.",
    &make_policy<engine::ScalingPolicy, LookAhead>, kParameters};

}  // namespace batchflow::policies
