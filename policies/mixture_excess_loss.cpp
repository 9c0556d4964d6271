// Excess loss: weights grow by a factor that is exponential in the loss.
//
// S. M. Xie et al., "DoReMi: Optimizing Data Mixtures Speeds Up Language Model Pretraining",
// NeurIPS 2023. There, what is reported is the loss of a small proxy beyond that of a reference
// model, at least 0, and a part of each update is the uniform mixture: here `least` is.
#include "core/engine/policy_list.h"
#include "policies/make.h"
#include "policies/mixture_bounded.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    kMixtureEvery,
    kMixtureLeast,
    kMixtureChange,
    {"rate", Parameter::Type::number, "1", "how fast weights follow the losses", 0, 1e6}};

class ExcessLoss final : public BoundedMixture {
 public:
  explicit ExcessLoss(const engine::MixtureContext& context)
      : BoundedMixture(context), rate_(context.parameters.number("rate")) {}

 private:
  void want(const engine::MixtureView& view, std::span<const double> losses,
            std::span<double> wanted) override {
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = rate_ * losses[i];
    raise(view, wanted);
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] *= view.sources[i].weight;
  }

  double rate_;
};

}  // namespace

extern const engine::PolicyEntry mixture_excess_loss;
constexpr engine::PolicyEntry mixture_excess_loss{
    .name = "excess-loss",
    .help =
        "Weights grow while a source's loss is above the others'.\n"
        "Each weight is multiplied by e to the power of rate times the loss. With\n"
        "losses beyond those of a reference model, it is the rule of DoReMi.",
    .make = &make_mixture<ExcessLoss>,
    .parameters = kParameters};

}  // namespace batchflow::policies
