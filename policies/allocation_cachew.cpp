// Cachew: of each dataset the form is kept with which an epoch takes least.
//
// D. Graur et al., "Cachew: Machine Learning Input Data Processing as a Service", USENIX ATC 2022.
// An epoch can be prepared from the store, made from what is kept as it is stored, or made from
// what is kept prepared. The three times are compared, and the least is taken; a dataset that is
// kept already for another job is used as it is. Departs from it: decoded samples stand for what
// is kept prepared, since random steps are drawn anew in each epoch; and where memory does not
// suffice for all of a dataset, the part that fits is kept.

#include "core/engine/policy_list.h"
#include "policies/allocation_measured.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    kFormsParameter,
    period_parameter("10"),
};

class Cachew final : public MeasuredAllocation {
  using MeasuredAllocation::MeasuredAllocation;

  void divide(const engine::PlaceView& place, std::span<Slots> slots,
              const StoreRate& store) override {
    fill_.fill_least_windows(place, slots);
    struct Choice {
      std::size_t share;
      std::uint32_t jobs;
    };
    std::vector<Choice> choices;
    double jobs = 0;
    for (const auto& [dataset, forms] : forms_of(place)) {
      const std::size_t share = chosen(place, store, forms, static_cast<double>(fill_.room()));
      if (share == kNone) continue;
      choices.push_back({share, forms.jobs});
      jobs += forms.jobs;
    }
    for (const Choice& choice : choices) {  // each job counts alike
      const engine::ShareView& share = place.shares[choice.share];
      const auto part = static_cast<Bytes>(static_cast<double>(fill_.room()) * choice.jobs / jobs);
      fill_.give(share, slots[choice.share], std::min(share.slots_all, part / share.slot_bytes));
      jobs -= choice.jobs;
    }
  }

  static double part_that_fits(const engine::ShareView& share, double memory) {
    return std::min(1.0, memory / bytes_of(share));
  }

  // By the time for a sample, if the store and the workers limit each other. Before anything is
  // measured, what is stored is kept.
  static std::size_t chosen(const engine::PlaceView& place, const StoreRate& store,
                            const Forms& forms, double memory) {
    if (forms.decoded == kNone || forms.encoded == kNone) {
      return forms.decoded == kNone ? forms.encoded : forms.decoded;
    }
    const engine::ShareView& encoded = place.shares[forms.encoded];
    const engine::ShareView& decoded = place.shares[forms.decoded];
    const MakingCosts costs(place, store, encoded, decoded);
    if (!costs.known) return forms.encoded;
    const auto time = [&](double part, double saved_s) {
      return std::max((costs.whole_s - part * saved_s) / place.workers, costs.store_s * (1 - part));
    };
    const double compute = time(0, 0);
    const double source = time(part_that_fits(encoded, memory), 0);
    const double full = time(part_that_fits(decoded, memory), costs.whole_s - costs.random_s);
    if (compute <= source && compute <= full) return kNone;
    return source <= full ? forms.encoded : forms.decoded;
  }
};

}  // namespace

extern const engine::PolicyEntry allocation_cachew;
const engine::PolicyEntry allocation_cachew{
    "cachew",
    "Of each dataset the form with which an epoch takes least.\n"
    "Prepared from the store, made from stored samples that are kept, or from\n"
    "decoded ones: the least of three times (Cachew, ATC 2022).\n"
    "Departs from it: decoded samples stand for prepared ones, and the part\n"
    "that fits is kept.",
    &make_policy<engine::AllocationPolicy, Cachew>, kParameters};

}  // namespace batchflow::policies
