// Seneca: memory is split between forms so that a model of the rates says the most.
//
// O. Desai et al., "Preparation Meets Opportunity: Enhancing Data Preprocessing for ML Training
// With Seneca", FAST 2026. A sample that is kept decoded needs the random steps alone, one that is
// kept as it is stored needs all preparation, any other the store, too. Each way has a rate, that
// of the slowest thing it needs; the split is the one for which the mean of the rates, by samples,
// is greatest, in steps of a hundredth. Departs from it: rates are measured in place of profiled,
// jobs share the workers of a node, and augmented samples are not kept.

#include "core/engine/policy_list.h"
#include "policies/allocation_measured.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    kFormsParameter,
    period_parameter("10"),
};

class Seneca final : public MeasuredAllocation {
  using MeasuredAllocation::MeasuredAllocation;

  void divide(const engine::PlaceView& place, std::span<Slots> slots,
              const StoreRate& store) override {
    fill_.fill_windows(place, slots, two_lanes);
    const auto datasets = forms_of(place);
    double requests = 0;
    for (const auto& [dataset, forms] : datasets) {
      if (forms.encoded != kNone) requests += place.shares[forms.encoded].requests_per_s;
    }
    const auto room = static_cast<double>(fill_.room());
    for (const auto& [dataset, forms] : datasets) {
      if (forms.encoded == kNone || forms.decoded == kNone) continue;
      // Each dataset has the part of the memory that its jobs have of all requests.
      const double part = requests > 0 ? place.shares[forms.encoded].requests_per_s / requests
                                       : 1.0 / static_cast<double>(datasets.size());
      split(place, slots, forms, part * room, store);
    }
    for (const Form form : {Form::encoded, Form::decoded, Form::prepared}) {
      fill_.fill_all(place, slots, form);
    }
  }

  struct Rates {
    double stored;  // samples a second that are made from the store alone
    double encoded;
    double decoded;
  };
  // What each way gives, if all samples came that way. Before it is measured, what is less work
  // counts for more.
  static Rates rates(const MakingCosts& costs, double workers) {
    if (!costs.known) return {1, 2, 3};
    constexpr double kLeast_s = 1e-12;
    const double encoded = workers / std::max(costs.whole_s, kLeast_s);
    return {std::min(encoded, 1 / std::max(costs.store_s, kLeast_s)), encoded,
            workers / std::max(costs.random_s, kLeast_s)};
  }

  void split(const engine::PlaceView& place, std::span<Slots> slots, const Forms& forms,
             double memory, const StoreRate& store) {
    const engine::ShareView& encoded = place.shares[forms.encoded];
    const engine::ShareView& decoded = place.shares[forms.decoded];
    const Rates rate = rates({place, store, encoded, decoded}, place.workers);
    double best = -1;
    double best_decoded = 0;
    double best_encoded = 0;
    for (int percent = 0; percent <= 100; ++percent) {
      const double to_decoded = memory * percent / 100;
      const double has_decoded = std::min(1.0, to_decoded / bytes_of(decoded));
      const double has_encoded =
          std::min(1 - has_decoded, (memory - to_decoded) / bytes_of(encoded));
      const double mean = has_decoded * rate.decoded + has_encoded * rate.encoded +
                          (1 - has_decoded - has_encoded) * rate.stored;
      if (mean <= best * (1 + 1e-9)) continue;  // of equal ones the least decoded
      best = mean;
      best_decoded = has_decoded;
      best_encoded = has_encoded;
    }
    give(decoded, slots[forms.decoded], best_decoded);
    give(encoded, slots[forms.encoded], best_encoded);
  }

  void give(const engine::ShareView& share, Slots& slots, double part) {
    const double wanted = part * static_cast<double>(share.slots_all);
    fill_.give(share, slots,
               part < 1 ? static_cast<Slots>(std::max(0.0, wanted)) : share.slots_all);
  }
};

}  // namespace

extern const engine::PolicyEntry allocation_seneca;
constexpr engine::PolicyEntry allocation_seneca{
    "seneca",
    "Memory is split between forms by a model of the rates.\n"
    "A sample comes decoded, as it is stored, or from the store, each at the\n"
    "rate of the slowest thing it needs; the split with the greatest mean rate\n"
    "is taken (Seneca, FAST 2026).\n"
    "Departs from it: rates are measured, not profiled, and nothing augmented\n"
    "is kept.",
    &make_policy<engine::AllocationPolicy, Seneca>, kParameters};

}  // namespace batchflow::policies
