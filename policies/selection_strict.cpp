// Strict: no choice. A job takes its blocks in the order of its lanes, and waits for each.
#include "core/engine/policy_list.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

class StrictSelection final : public engine::SelectionPolicy {
 public:
  explicit StrictSelection(const engine::PolicyContext&) {}

  std::size_t choose(const engine::SelectionView& view) override {
    return !view.candidates.empty() && view.candidates.front().ready ? 0 : engine::kNoChoice;
  }
  bool looks_behind_ready() const override { return false; }
};

}  // namespace

extern const engine::PolicyEntry selection_strict;
const engine::PolicyEntry selection_strict{
    "strict",
    "A job takes its blocks in order and waits for each.\n"
    "Jobs of order strict do so under any policy; this makes relaxed jobs\n"
    "do the same.",
    &make_policy<engine::SelectionPolicy, StrictSelection>};

}  // namespace batchflow::policies
