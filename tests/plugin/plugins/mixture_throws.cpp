// A mixture policy that answers twice, and then throws with half of an answer given.
#include <stdexcept>

#include "core/engine/policy_list.h"
#include "policies/make.h"
#include "policies/plugin/plugin.h"

namespace batchflow::policies {
namespace {

class Throws final : public engine::MixturePolicy {
 public:
  explicit Throws(const engine::MixtureContext&) {}
  std::uint64_t every() const override { return 500; }
  void weigh(const engine::MixtureView& view, std::span<double> weights) override {
    weights[0] = static_cast<double>(view.sources.size());
    if (++asked_ > 2) throw std::runtime_error("not on a Sunday");
    for (std::size_t i = 1; i < weights.size(); ++i) weights[i] = 1;
  }

 private:
  int asked_ = 0;
};

}  // namespace

extern const engine::PolicyEntry mixture_throws;
constexpr engine::PolicyEntry mixture_throws{
    .name = "throws", .help = "It answers twice.", .make = &make_mixture<Throws>};

}  // namespace batchflow::policies

BATCHFLOW_POLICY_PLUGIN("mixture-throws", "1.0.0", batchflow::policies::mixture_throws)
