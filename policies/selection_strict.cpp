// Strict: no choice. A job takes its blocks in the order of its lanes, and waits for each.
#include "core/policy_list.h"
#include "policies/make.h"

namespace batchflow {
namespace {

class StrictSelection final : public SelectionPolicy {
 public:
  explicit StrictSelection(const PolicyContext&) {}

  std::size_t choose(const SelectionView& view) override {
    return !view.candidates.empty() && view.candidates.front().ready ? 0 : kNoChoice;
  }
  bool looks_behind_ready() const override { return false; }
};

}  // namespace

extern const PolicyEntry selection_strict;
const PolicyEntry selection_strict{
    "strict",
    "A job takes its blocks in order and waits for each.\n"
    "Jobs of order strict do so under any policy; this makes relaxed jobs\n"
    "do the same.",
    &make_policy<SelectionPolicy, StrictSelection>};

}  // namespace batchflow
