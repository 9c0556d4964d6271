// Coordinated preparation, after CoorDL: the jobs of a stream take turns to prepare, and no job
// goes further ahead than the staging area holds. Jayaram Mohan et al., "Analyzing and Mitigating
// Data Stalls in DNN Training", VLDB 2021.
#include "core/engine/policy_list.h"
#include "policies/dispatch_choose.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    {"staging", Parameter::Type::integer, "32",
     "blocks of a stream that are kept until all its jobs have had them", 1, 1e9},
};

class Coordinated final : public engine::DispatchPolicy {
 public:
  explicit Coordinated(const engine::PolicyContext& context)
      : staging_(static_cast<std::uint32_t>(context.parameters.integer("staging"))) {}

  // The next turn is that of the job with the oldest turn. A block stays until all jobs have used
  // it, so a job that is a whole staging area ahead waits for the slowest. A job that died has left
  // its stream and holds back no other.
  std::size_t next(const engine::DispatchView& view) override {
    return first_candidate(
        view.candidates, had_turn_before,
        [&](const engine::WorkCandidate& candidate) { return candidate.lead < staging_; });
  }

 private:
  std::uint32_t staging_;
};

}  // namespace

extern const engine::PolicyEntry dispatch_coordinated;
constexpr engine::PolicyEntry dispatch_coordinated{
    "coordinated",
    "The jobs of a stream take turns to prepare blocks for all.\n"
    "Each block is used by all of them once an epoch, and no job leads by more\n"
    "than the staging area holds (CoorDL, VLDB 2021).\n"
    "Departs from it: where a job died, the others go on without a timeout.",
    &make_policy<engine::DispatchPolicy, Coordinated>, kParameters};

}  // namespace batchflow::policies
