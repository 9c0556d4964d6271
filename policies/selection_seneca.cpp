// Seneca's opportunistic sampling: unseen samples that are cached come first, those that need least
// work before the others.
//
// O. Desai et al., "Preparation Meets Opportunity: Enhancing Data Preprocessing for ML Training
// With Seneca", FAST 2026. Departs from it: random steps are drawn anew for each job, so no job is
// given what another had augmented.
#include "core/engine/policy_list.h"
#include "policies/make.h"
#include "policies/selection_substitution.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    candidates_parameter("64"),
};

class Seneca final : public Substitution {
 public:
  using Substitution::Substitution;

 private:
  int rank_of(const engine::SampleCandidate& candidate) const override {
    return candidate.decoded ? 0 : candidate.encoded ? 1 : 2;
  }
};

}  // namespace

extern const engine::PolicyEntry selection_seneca;
constexpr engine::PolicyEntry selection_seneca{
    .name = "seneca",
    .help =
        "Samples that a job has not had and a cache has come first.\n"
        "Decoded ones come before stored ones (Seneca, FAST 2026). Each sample\n"
        "comes once an epoch; the order depends on what is kept. Jobs share no\n"
        "prepared blocks.\n"
        "Departs from it: random steps are drawn anew for each job.",
    .make = &make_policy<engine::SelectionPolicy, Seneca>,
    .parameters = kParameters};

}  // namespace batchflow::policies
