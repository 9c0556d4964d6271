// Nearest by link: a block is made on the node on which it is there first.
//
// The job is chosen as by `batchflow`. On each node that could make its block, the time until the
// block is with the ranks that take it is taken to be that of the blocks before it on the node's
// workers, of what the block needs from other nodes, and of what then goes to them. A direction of
// a link of which nothing is known counts as free, so that it becomes known. If all ranks are on
// one node, that node makes the block while it can begin one.
#include <algorithm>
#include <tuple>

#include "core/engine/policy_list.h"
#include "policies/dispatch_choose.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

class NearestByLink final : public engine::DispatchPolicy {
 public:
  explicit NearestByLink(const engine::PolicyContext&) {}

  std::size_t next(const engine::DispatchView& view) override { return least_slack(view); }

  bool chooses_nodes() const override { return true; }
  std::size_t choose_node(const engine::NodesView& view) override {
    std::size_t best = 0;
    for (std::size_t i = 1; i < view.candidates.size(); ++i) {
      if (rank(view.work, view.candidates[i]) < rank(view.work, view.candidates[best])) best = i;
    }
    return best;
  }

 private:
  // The least comes first. Where each node of a job has blocks of its own, the job gets them where
  // its ranks have the fewest ahead. Of nodes that are alike, one with ranks makes the block.
  static std::tuple<bool, double, double, double> rank(const engine::WorkCandidate& work,
                                                       const engine::NodeCandidate& node) {
    const bool is_for_its_own = node.ranks > 0 && node.to_send == 0;
    const double ahead = is_for_its_own ? static_cast<double>(node.ahead) / node.ranks : 0;
    return {!is_for_its_own, ahead, time_s(work, node), -static_cast<double>(node.ranks)};
  }
  static double time_s(const engine::WorkCandidate& work, const engine::NodeCandidate& node) {
    const double blocks = node.started + 1.0;
    return blocks * work.prepare_s / std::max(1u, node.workers) +
           on_link_s(node.coming, node.to_fetch, node.in_per_s) +
           on_link_s(node.going, node.to_send, node.out_per_s);
  }
  static double on_link_s(Bytes before, Bytes own, std::uint64_t per_s) {
    if (own == 0 || per_s == 0) return 0;
    return (static_cast<double>(before) + static_cast<double>(own)) / static_cast<double>(per_s);
  }
};

}  // namespace

extern const engine::PolicyEntry dispatch_nearest_by_link;
constexpr engine::PolicyEntry dispatch_nearest_by_link{
    "nearest-by-link",
    "As batchflow, and a block is made where it is there first.\n"
    "Of the nodes that could make a block, the one with the least time is\n"
    "chosen: for the blocks before it, for what the block needs from other\n"
    "nodes, and for what goes to ranks of other nodes, by what the link of each\n"
    "node has carried of late.",
    &make_policy<engine::DispatchPolicy, NearestByLink>};

}  // namespace batchflow::policies
