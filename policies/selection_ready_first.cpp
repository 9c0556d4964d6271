// Ready-first: the oldest block that is ready, within the window that the order allows.
#include "core/engine/policy_list.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

class ReadyFirst final : public engine::SelectionPolicy {
 public:
  explicit ReadyFirst(const engine::PolicyContext&) {}

  // Candidates come oldest first, so no block is passed over for longer than it takes to be made.
  std::size_t choose(const engine::SelectionView& view) override {
    for (std::size_t i = 0; i < view.candidates.size(); ++i) {
      if (view.candidates[i].ready) return i;
    }
    return engine::kNoChoice;
  }
  bool looks_behind_ready() const override { return false; }
};

}  // namespace

extern const engine::PolicyEntry selection_ready_first;
constexpr engine::PolicyEntry selection_ready_first{
    "ready-first",
    "A job takes the oldest of its next blocks that is ready.\n"
    "At most ready_window blocks ahead, so that a slow preparation holds up\n"
    "no job.",
    &make_policy<engine::SelectionPolicy, ReadyFirst>};

}  // namespace batchflow::policies
