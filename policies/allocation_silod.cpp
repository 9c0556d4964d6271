// SiloD: memory goes to the datasets of which a byte saves the store most.
//
// H. Zhao et al., "SiloD: A Co-design of Caching and Scheduling for Deep Learning Clusters",
// EuroSys 2023. A job that would train on f* bytes a second reads f* (1 - c/d) of them from the
// store, if c of the d bytes of its dataset are kept. So a byte saves f*/d, summed over the jobs of
// the dataset, and the datasets are filled in that order. Only stored samples are kept, and the
// windows of prepared blocks that jobs are promised. Departs from it: no job's share of the
// store's bandwidth is limited.

#include "core/engine/policy_list.h"
#include "policies/allocation_measured.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    {"forms", Parameter::Type::text, "encoded+prepared", kFormsParameter.help},
    period_parameter("10"),
};

class SiloD final : public MeasuredAllocation {
  using MeasuredAllocation::MeasuredAllocation;

  void divide(const engine::PlaceView& place, std::span<Slots> slots, const StoreRate&) override {
    fill_.fill_least_windows(place, slots);
    // Before anything is measured, each job counts as one that reads a sample a second.
    fill_by(place, slots, [](const engine::ShareView& share) {
      return (share.wanted_per_s > 0 ? share.wanted_per_s : share.jobs) / bytes_of(share);
    });
  }
};

}  // namespace

extern const engine::PolicyEntry allocation_silod;
constexpr engine::PolicyEntry allocation_silod{
    "silod",
    "Memory by what a byte of a dataset saves the store.\n"
    "Datasets are filled in the order of what their jobs would train on if they\n"
    "never waited, over their size (SiloD, EuroSys 2023).\n"
    "Departs from it: no job's bandwidth is limited, which SiloD does.",
    &make_policy<engine::AllocationPolicy, SiloD>, kParameters};

}  // namespace batchflow::policies
