// Upper confidence bound: the source that may lose most gets more of the mixture.
//
// P. Auer, N. Cesa-Bianchi, P. Fischer, "Finite-time Analysis of the Multiarmed Bandit Problem",
// Machine Learning 47, 2002. A bandit draws from one source at a time; here the weights move
// towards it by `change` at once, so all sources go on coming.
#include <algorithm>
#include <cmath>

#include "core/base/real_functions.h"
#include "core/engine/policy_list.h"
#include "policies/make.h"
#include "policies/mixture_bounded.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {kMixtureEvery,
                                     kMixtureLeast,
                                     kMixtureChange,
                                     {"explore", Parameter::Type::number, "1",
                                      "the weight of not having drawn from a source", 0, 1e6}};

class Ucb final : public BoundedMixture {
 public:
  explicit Ucb(const engine::MixtureContext& context)
      : BoundedMixture(context), explore_(context.parameters.number("explore")) {}

 private:
  void want(const engine::MixtureView& view, std::span<const double> losses,
            std::span<double> wanted) override {
    const double all = log_of(static_cast<double>(std::max<std::uint64_t>(view.drawn, 1)));
    std::size_t best = wanted.size();
    double most = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const engine::SourceView& source = view.sources[i];
      if (source.weight == 0) continue;
      const auto drawn = static_cast<double>(std::max<std::uint64_t>(source.drawn, 1));
      const double bound = losses[i] + explore_ * std::sqrt(all / drawn);
      if (best < wanted.size() && bound <= most) continue;
      best = i;
      most = bound;
    }
    if (best < wanted.size()) wanted[best] = 1;
  }

  double explore_;
};

}  // namespace

extern const engine::PolicyEntry mixture_ucb;
constexpr engine::PolicyEntry mixture_ucb{
    .name = "ucb",
    .help =
        "More of the source that may lose most, as of a bandit.\n"
        "That is the one with the greatest loss plus explore times the root of\n"
        "ln(all samples) over its own. Losses should be between 0 and 1 or so.",
    .make = &make_mixture<Ucb>,
    .parameters = kParameters};

}  // namespace batchflow::policies
