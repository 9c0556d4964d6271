// DeepIO: batches come from what is in memory, as long as the order stays close to a random one.
//
// Y. Zhu et al., "Entropy-Aware I/O Pipelining for Large-Scale Deep Learning on HPC Systems",
// MASCOTS 2018. Departs from it: a part of each block is left to chance, in place of a bound on the
// cross-entropy.
#include <algorithm>

#include "core/engine/policy_list.h"
#include "policies/make.h"
#include "policies/selection_substitution.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    candidates_parameter("10"),
    {"chance", Parameter::Type::number, "0.25",
     "the part of each block that is taken in the order of the permutation", 0, 1},
};

class DeepIo final : public Substitution {
 public:
  explicit DeepIo(const engine::PolicyContext& context)
      : Substitution(context), chance_(context.parameters.number("chance")) {}

 private:
  std::size_t left_to_chance(std::size_t samples) const override {
    return std::min(samples, static_cast<std::size_t>(chance_ * static_cast<double>(samples)));
  }

  double chance_;
};

}  // namespace

extern const engine::PolicyEntry selection_deepio;
constexpr engine::PolicyEntry selection_deepio{
    .name = "deepio",
    .help =
        "Blocks from what is in memory, and a part by chance.\n"
        "After DeepIO, MASCOTS 2018. Each sample comes once an epoch; the order\n"
        "depends on what is kept. Jobs share no prepared blocks.\n"
        "Departs from it: the part by chance is fixed: no cross-entropy is bounded.",
    .make = &make_policy<engine::SelectionPolicy, DeepIo>,
    .parameters = kParameters};

}  // namespace batchflow::policies
