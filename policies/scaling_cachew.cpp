// Cachew's scaling: one worker more as long as that makes batches come faster.
//
// D. Graur et al., "Cachew: Machine Learning Input Data Processing as a Service", USENIX ATC 2022.
// A worker is added and kept if the time of a batch falls by more than 7 %, else it is taken away
// again and the search is over. Then workers are taken away while that costs less than 3 %. After
// twenty reports without a change the search begins again if the time has become 1.5 times what it
// was. Departs from it: a node's samples a second stand for the time of a batch, and they are
// looked at every few seconds.
#include <algorithm>
#include <map>

#include "core/base/saturating.h"
#include "core/engine/policy_list.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    {"period_s", Parameter::Type::number, "15", "seconds from one report to the next", 0.01, 3600},
    {"depth", Parameter::Type::integer, "8",
     "blocks kept ready or in preparation ahead of each rank", 1, 4096},
};

class Cachew final : public engine::ScalingPolicy {
 public:
  explicit Cachew(const engine::PolicyContext& context)
      : period_(static_cast<std::int64_t>(context.parameters.number("period_s") * 1e9)),
        depth_(static_cast<std::uint32_t>(context.parameters.integer("depth"))) {}

  std::uint32_t workers(const engine::NodeView& view) override {
    Search& search = searches_[view.node];
    if (view.made_per_s > 0 && view.now >= search.next) {
      // What is measured counts once it is of a whole period.
      if (search.next != Instant{}) report(search, 1 / view.made_per_s, view.workers_most);
      search.next = after(view.now, period_);
    }
    search.workers = std::clamp<std::uint32_t>(search.workers, 1, std::max(1u, view.workers_most));
    return std::min(search.workers, view.workers_most);
  }
  std::uint32_t depth(const engine::JobView& view) override {
    return static_cast<std::uint32_t>(
        std::min(std::uint64_t{depth_} * view.ranks, std::uint64_t{view.window}));
  }

 private:
  struct Search {
    enum class Phase : std::uint8_t { first, growing, shrinking, over } phase = Phase::first;
    std::uint32_t workers = 1;
    double time = 0;  // of a sample, before the last change
    std::uint32_t stable = 0;
    Instant next{};
  };

  static void report(Search& search, double time, std::uint32_t most) {
    using Phase = Search::Phase;
    switch (search.phase) {
      case Phase::first:
        search.time = time;
        return grow(search, most);
      case Phase::growing:
        if (time < (1 - kGain) * search.time) {
          search.time = time;
          return grow(search, most);
        }
        --search.workers;
        search.phase = Phase::over;
        return;
      case Phase::shrinking:
        if (time < (1 + kLoss) * search.time) return shrink(search);
        ++search.workers;
        search.phase = Phase::over;
        return;
      case Phase::over:
        if (search.stable++ == 0) search.time = time;
        if (search.stable == kTry) return shrink(search);
        if (search.stable > kTry && time > kWorse * search.time)
          search = {.workers = search.workers, .next = search.next};
    }
  }
  static void grow(Search& search, std::uint32_t most) {
    search.stable = 0;
    search.phase = search.workers < most ? Search::Phase::growing : Search::Phase::over;
    if (search.workers < most) ++search.workers;
  }
  static void shrink(Search& search) {
    search.phase = search.workers > 1 ? Search::Phase::shrinking : Search::Phase::over;
    if (search.workers > 1) --search.workers;
  }

  static constexpr double kGain = 0.07;
  static constexpr double kLoss = 0.03;
  static constexpr double kWorse = 1.5;
  static constexpr std::uint32_t kTry = 20;

  Duration period_;
  std::uint32_t depth_;
  std::map<NodeId, Search> searches_;
};

}  // namespace

extern const engine::PolicyEntry scaling_cachew;
constexpr engine::PolicyEntry scaling_cachew{
    "cachew",
    "One worker more as long as samples come 7 % faster.\n"
    "Workers that cost less than 3 % are taken away again (Cachew, ATC 2022).\n"
    "Departs from it: samples a second of a node stand for the time of a batch.",
    &make_policy<engine::ScalingPolicy, Cachew>, kParameters};

}  // namespace batchflow::policies
