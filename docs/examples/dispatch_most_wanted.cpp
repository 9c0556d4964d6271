// Most wanted: the block that the most jobs will use is made first.
#include <algorithm>

#include "core/engine/policy_list.h"
#include "policies/dispatch_choose.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    {"patience", Parameter::Type::integer, "32", "later needs that may be served before a need", 1,
     1e6},
};

class MostWanted final : public engine::DispatchPolicy {
 public:
  explicit MostWanted(const engine::PolicyContext& context)
      : patience_(static_cast<std::uint64_t>(context.parameters.integer("patience"))) {}

  std::size_t next(const engine::DispatchView& view) override {
    std::uint64_t newest = 0;
    for (const engine::WorkCandidate& candidate : view.candidates) {
      newest = std::max(newest, candidate.asked);
    }
    // Needs that waited too long come first, oldest first, so no job starves.
    const auto weight = [&](const engine::WorkCandidate& candidate) {
      return newest - candidate.asked > patience_ ? UINT32_MAX : candidate.needed_by;
    };
    return first_candidate(view.candidates,
                           [&](const engine::WorkCandidate& a, const engine::WorkCandidate& b) {
                             return weight(a) > weight(b);
                           });
  }

  // Where the most of the dataset is kept, the least is copied from other nodes; and where that is
  // the same, a node that is less busy takes it.
  bool chooses_nodes() const override { return true; }
  std::size_t choose_node(const engine::NodesView& view) override {
    const auto worse = [](const engine::NodeCandidate& a, const engine::NodeCandidate& b) {
      return a.kept != b.kept ? a.kept < b.kept : a.started > b.started;
    };
    const auto best = std::max_element(view.candidates.begin(), view.candidates.end(), worse);
    return static_cast<std::size_t>(best - view.candidates.begin());
  }

 private:
  std::uint64_t patience_;
};

}  // namespace

extern const engine::PolicyEntry dispatch_most_wanted;
constexpr engine::PolicyEntry dispatch_most_wanted{
    "most-wanted",
    "The block that the most jobs will use is made first.\n"
    "A need that has seen too many later ones served goes before all others.\n"
    "Blocks are made where the most of their dataset is kept.",
    &make_policy<engine::DispatchPolicy, MostWanted>, kParameters};

}  // namespace batchflow::policies
