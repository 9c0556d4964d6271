// Most shared: a job takes the ready block that the most jobs still need.
#include "core/engine/policy_list.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

class MostShared final : public engine::SelectionPolicy {
 public:
  explicit MostShared(const engine::PolicyContext&) {}

  std::size_t choose(const engine::SelectionView& view) override {
    std::size_t best = engine::kNoChoice;  // none is ready: wait
    for (std::size_t i = 0; i < view.candidates.size(); ++i) {
      const engine::SelectionCandidate& candidate = view.candidates[i];
      if (!candidate.ready) continue;
      // Of equals the first stays, which is the oldest.
      if (best == engine::kNoChoice || candidate.needed_by > view.candidates[best].needed_by)
        best = i;
    }
    return best;
  }
};

}  // namespace

extern const engine::PolicyEntry selection_most_shared;
constexpr engine::PolicyEntry selection_most_shared{
    "most-shared", "A job takes the ready block that the most jobs still need.",
    &make_policy<engine::SelectionPolicy, MostShared>};

}  // namespace batchflow::policies
