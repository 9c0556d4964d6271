// Hardest half: half of the mixture is the source with the greatest loss; the others share the
// rest.
#include <cstdint>

#include "core/engine/policy_list.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {{"every", Parameter::Type::integer, "10000",
                                      "samples after which the weights may change again", 1, 1e12}};

class HardestHalf final : public engine::MixturePolicy {
 public:
  explicit HardestHalf(const engine::MixtureContext& context)
      : every_(static_cast<std::uint64_t>(context.parameters.integer("every"))) {}

  std::uint64_t every() const override { return every_; }

  void weigh(const engine::MixtureView& view, std::span<double> weights) override {
    std::size_t hardest = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weights[i] = 1;
      if (view.sources[i].loss > view.sources[hardest].loss) hardest = i;
    }
    if (weights.size() > 1) weights[hardest] = static_cast<double>(weights.size() - 1);
  }

 private:
  std::uint64_t every_;
};

}  // namespace

extern const engine::PolicyEntry mixture_hardest_half;
constexpr engine::PolicyEntry mixture_hardest_half{
    "hardest-half",
    "Half of the mixture is the source with the greatest loss.\n"
    "The others share the rest.",
    &make_mixture<HardestHalf>, kParameters};

}  // namespace batchflow::policies
