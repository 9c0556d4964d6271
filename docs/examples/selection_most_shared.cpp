// Most shared: of the blocks that are ready, the one that the most jobs still need.
#include "core/policy_list.h"
#include "policies/make.h"

namespace batchflow {
namespace {

class MostShared final : public SelectionPolicy {
 public:
  explicit MostShared(const PolicyContext&) {}

  std::size_t choose(const SelectionView& view) override {
    std::size_t best = kNoChoice;  // none is ready: wait
    for (std::size_t i = 0; i < view.candidates.size(); ++i) {
      const SelectionCandidate& one = view.candidates[i];
      if (!one.ready) continue;
      // Of equals the first stays, which is the oldest.
      if (best == kNoChoice || one.needed_by > view.candidates[best].needed_by) best = i;
    }
    return best;
  }
};

}  // namespace

extern const PolicyEntry selection_most_shared;
const PolicyEntry selection_most_shared{
    "most-shared", "A job takes the ready block that the most jobs still need.",
    &make_policy<SelectionPolicy, MostShared>};

}  // namespace batchflow
