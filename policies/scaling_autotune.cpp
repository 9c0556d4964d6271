// Autotune: as many workers as the jobs' speed needs, by the measured rate of one.
//
// D. G. Murray et al., "tf.data: A Machine Learning Data Processing Framework", VLDB 2021. A model
// of the rates of the stages says which limits the output, and that one gets more parallelism until
// the cores are used; buffers double where they run empty. Departs from it: a node has one stage on
// workers, and what is read is bounded by the engine.
#include <algorithm>
#include <cmath>
#include <map>

#include "core/engine/policy_list.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

class Autotune final : public engine::ScalingPolicy {
 public:
  explicit Autotune(const engine::PolicyContext&) {}

  std::uint32_t workers(const engine::NodeView& view) override {
    const double at_work = view.busy_part * view.workers_now;
    if (view.made_per_s <= 0 || view.wanted_per_s <= 0 || at_work <= 0) return view.workers_most;
    const double needed = std::ceil(view.wanted_per_s / (view.made_per_s / at_work));
    if (needed >= view.workers_most) return view.workers_most;
    return std::max(1u, static_cast<std::uint32_t>(needed));
  }
  // A buffer that runs empty doubles, and one that never does keeps its size.
  std::uint32_t depth(const engine::JobView& view) override {
    Buffer& buffer = buffers_[view.job];
    if (view.stall_fraction > kEmpty && view.now >= buffer.grown + kPeriod) {
      buffer.blocks = std::min(buffer.blocks * 2, kBlocksMost);
      buffer.grown = view.now;
    }
    return static_cast<std::uint32_t>(
        std::min(std::uint64_t{buffer.blocks} * view.ranks, std::uint64_t{view.window}));
  }

 private:
  struct Buffer {
    std::uint32_t blocks = 2;  // of each rank
    Instant grown{};
  };
  static constexpr double kEmpty = 0.01;
  static constexpr Duration kPeriod = std::chrono::seconds(1);
  static constexpr std::uint32_t kBlocksMost = 512;

  std::map<JobId, Buffer> buffers_;
};

}  // namespace

extern const engine::PolicyEntry scaling_autotune;
constexpr engine::PolicyEntry scaling_autotune{
    "autotune",
    "As many workers as the jobs' speed needs.\n"
    "By what one worker was measured to make; buffers double where they run\n"
    "empty (tf.data, VLDB 2021).\n"
    "Departs from it: a node has one stage on workers; reads are bounded by the\n"
    "engine.",
    &make_policy<engine::ScalingPolicy, Autotune>};

}  // namespace batchflow::policies
