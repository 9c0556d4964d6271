// A selection policy that chooses nothing any more after some questions.
#include "policies/make.h"
#include "policies/plugin/plugin.h"

namespace batchflow::policies {
namespace {

class HoldsBack final : public engine::SelectionPolicy {
 public:
  explicit HoldsBack(const engine::PolicyContext&) {}
  std::size_t choose(const engine::SelectionView& view) override {
    return ++asked_ > 20 ? engine::kNoChoice : plugin::fallback::choose(view);
  }

 private:
  int asked_ = 0;
};

constexpr engine::PolicyEntry selection_holds_back{
    "holds-back", "The oldest that is ready, as a rule.",
    &make_policy<engine::SelectionPolicy, HoldsBack>};

}  // namespace
}  // namespace batchflow::policies

BATCHFLOW_POLICY_PLUGIN("holds-back", "1.0.0", batchflow::policies::selection_holds_back)
