// Strict: no choice. A job takes its blocks in the order of its lanes, and waits for each.
#include "core/engine/policy_list.h"
#include "policies/make.h"
#include "policies/selection_in_turn.h"

namespace batchflow::policies {
namespace {

class StrictSelection final : public InTurn {
 public:
  explicit StrictSelection(const engine::PolicyContext&) {}
};

}  // namespace

extern const engine::PolicyEntry selection_strict;
constexpr engine::PolicyEntry selection_strict{
    "strict",
    "A job takes its blocks in order and waits for each.\n"
    "Jobs of order strict do so under any policy; this makes relaxed jobs\n"
    "do the same.",
    &make_policy<engine::SelectionPolicy, StrictSelection>};

}  // namespace batchflow::policies
