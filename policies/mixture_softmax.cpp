// Softmax: weights follow the losses of now, whatever they were before.
#include "core/engine/policy_list.h"
#include "policies/make.h"
#include "policies/mixture_bounded.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    kMixtureEvery,
    kMixtureLeast,
    kMixtureChange,
    {"temperature", Parameter::Type::number, "1",
     "how much larger losses differ for the same weights", 1e-6, 1e6}};

class Softmax final : public BoundedMixture {
 public:
  explicit Softmax(const engine::MixtureContext& context)
      : BoundedMixture(context), temperature_(context.parameters.number("temperature")) {}

 private:
  void want(const engine::MixtureView& view, std::span<const double> losses,
            std::span<double> wanted) override {
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = losses[i] / temperature_;
    raise(view, wanted);
  }

  double temperature_;
};

}  // namespace

extern const engine::PolicyEntry mixture_softmax;
constexpr engine::PolicyEntry mixture_softmax{
    .name = "softmax",
    .help =
        "Weights follow the losses of now.\n"
        "A source weighs e to the power of its loss over the temperature.",
    .make = &make_mixture<Softmax>,
    .parameters = kParameters};

}  // namespace batchflow::policies
