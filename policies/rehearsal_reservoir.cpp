// Reservoir: a uniform choice of all samples that jobs have had.
//
// J. S. Vitter, "Random Sampling with a Reservoir", ACM TOMS 1985, for rehearsal as in A. Chaudhry
// et al., "On Tiny Episodic Memories in Continual Learning", 2019. Departs from it: a sample that
// comes again changes nothing. For that, each sample has a number of its own, and those with the
// smallest numbers are kept, which is the same choice (E. Cohen, "Size-Estimation Framework", 1997,
// "bottom k").
#include "core/engine/policy_list.h"
#include "policies/make.h"
#include "policies/rehearsal_leaving.h"

namespace batchflow::policies {
namespace {

class Reservoir final : public engine::RehearsalPolicy {
 public:
  explicit Reservoir(const engine::RehearsalContext& context) : capacity_(context.capacity) {}

  std::size_t choose(const engine::RehearsalView& sample, Random /*random*/) override {
    if (leaving_.size() < capacity_) return leaving_.size();
    return sample.number < leaving_.first_rank() ? leaving_.first() : engine::kNoChoice;
  }
  void put(std::size_t index, const engine::RehearsalView& exemplar) override {
    leaving_.put(index, exemplar.number);
  }

 private:
  std::size_t capacity_;
  Leaving<std::uint64_t> leaving_;
};

}  // namespace

extern const engine::PolicyEntry rehearsal_reservoir;
constexpr engine::PolicyEntry rehearsal_reservoir{
    .name = "reservoir",
    .help =
        "A uniform choice of all samples that jobs have had.\n"
        "Each subset of them is as likely to be the buffer as any other, whenever one\n"
        "looks. A sample that comes again, in a later epoch, changes nothing.",
    .make = &make_rehearsal<Reservoir>};

}  // namespace batchflow::policies
