// Kept first: a block takes samples that are kept, as far as there are any.
#include "core/engine/policy_list.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

class KeptFirst final : public engine::SelectionPolicy {
 public:
  explicit KeptFirst(const engine::PolicyContext&) {}

  std::size_t choose(const engine::SelectionView& view) override {
    return view.candidates.front().ready ? 0 : engine::kNoChoice;
  }
  std::uint32_t blocks_to_choose_from() const override { return 4; }
  void choose_samples(const engine::SamplesView& view, std::span<std::uint32_t> picks) override {
    std::size_t chosen = 0;
    for (const bool kept : {true, false}) {
      for (std::uint32_t i = 0; i < view.candidates.size() && chosen < picks.size(); ++i) {
        const engine::SampleCandidate& candidate = view.candidates[i];
        if ((candidate.encoded || candidate.decoded) == kept) picks[chosen++] = i;
      }
    }
  }
};

}  // namespace

extern const engine::PolicyEntry selection_kept_first;
constexpr engine::PolicyEntry selection_kept_first{
    .name = "kept-first",
    .help = "A block takes samples that are kept, as far as there are any.",
    .make = &make_policy<engine::SelectionPolicy, KeptFirst>};

}  // namespace batchflow::policies
