// Quiver: memory goes to the datasets of the jobs that gain most by it.
//
// A. Kumar, M. Sivathanu, "Quiver: An Informed Storage Cache for Deep Learning", FAST 2020. The
// benefit of a byte is how much longer a job's batches take without the cache than with it, over
// the size of its dataset; jobs that wait for the store for less than their step gain nothing.
// Departs from it: the benefit follows from how long jobs wait, as it is measured, in place of
// probes with the cache and without.

#include "core/engine/policy_list.h"
#include "policies/allocation_measured.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    {"forms", Parameter::Type::text, "encoded+prepared", kFormsParameter.help},
    period_parameter("30"),
};

class Quiver final : public MeasuredAllocation {
  using MeasuredAllocation::MeasuredAllocation;

  // Jobs of a dataset of which more is kept wait less, so the benefit is reckoned from keeping
  // none. A dataset keeps its memory until another is worth a fifth more, since to bring it in
  // again takes an epoch.
  void divide(const engine::PlaceView& place, std::span<Slots> slots, const StoreRate&) override {
    constexpr double kStays = 1.2;
    fill_.fill_least_windows(place, slots);
    fill_by(place, slots, [](const engine::ShareView& share) {
      const double waits = share.stall / std::max(0.01, 1 - share.hit_ratio);
      const double gain = share.made_per_s > 0 ? std::max(0.001, waits) * share.weight : share.jobs;
      return gain * (share.slots_used > 0 ? kStays : 1) / bytes_of(share);
    });
  }
};

}  // namespace

extern const engine::PolicyEntry allocation_quiver;
constexpr engine::PolicyEntry allocation_quiver{
    "quiver",
    "Memory by what a byte spares the jobs that wait.\n"
    "Datasets are filled in the order of how long their jobs wait for data,\n"
    "over their size (Quiver, FAST 2020).\n"
    "Departs from it: the benefit follows from waits that are measured, not\n"
    "from probes.",
    &make_policy<engine::AllocationPolicy, Quiver>, kParameters};

}  // namespace batchflow::policies
