// Static: the same number of workers and the same look-ahead, whatever happens.
#include <algorithm>

#include "core/engine/policy_list.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    {"workers", Parameter::Type::integer, "0", "preparation workers on each node; 0: all its cores",
     0, 4096},
    {"depth", Parameter::Type::integer, "4",
     "blocks kept ready or in preparation ahead of each rank; 0: made when a job waits", 0, 4096},
};

class Static final : public engine::ScalingPolicy {
 public:
  explicit Static(const engine::PolicyContext& context)
      : workers_(static_cast<std::uint32_t>(context.parameters.integer("workers"))),
        depth_(static_cast<std::uint32_t>(context.parameters.integer("depth"))) {}

  std::uint32_t workers(const engine::NodeView& view) override {
    return workers_ == 0 ? view.workers_most : std::min(workers_, view.workers_most);
  }
  std::uint32_t depth(const engine::JobView& view) override {
    return static_cast<std::uint32_t>(
        std::min(std::uint64_t{depth_} * view.ranks, std::uint64_t{view.window}));
  }

 private:
  std::uint32_t workers_;
  std::uint32_t depth_;
};

}  // namespace

extern const engine::PolicyEntry scaling_static;
constexpr engine::PolicyEntry scaling_static{
    "static", "A fixed number of workers a node and a fixed look-ahead.",
    &make_policy<engine::ScalingPolicy, Static>, kParameters};

}  // namespace batchflow::policies
