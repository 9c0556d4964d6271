// Cachew: each dataset is kept in the form with which an epoch takes least.
//
// D. Graur et al., "Cachew: Machine Learning Input Data Processing as a Service", USENIX ATC 2022.
// An epoch can be prepared from the store, made from what is kept as it is stored, or made from
// what is kept prepared. The three times are compared, and the least is taken; a dataset that is
// kept already for another job is used as it is. Prepared samples are larger, so where the cache is
// on a volume they may take longer to read than samples take to prepare. Departs from it: decoded
// samples stand for what is kept prepared, since random steps are drawn anew in each epoch; where
// memory does not suffice for all of a dataset, the part that fits is kept; and the rate of the
// volume is a parameter.

#include "core/engine/policy_list.h"
#include "policies/allocation_measured.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    kFormsParameter,
    period_parameter("10"),
    {"cache_bytes_per_s", Parameter::Type::number, "0",
     "how fast what is kept can be read; 0: nothing waits for that", 0, 1e18},
};

class Cachew final : public MeasuredAllocation {
 public:
  explicit Cachew(const engine::PolicyContext& context)
      : MeasuredAllocation(context),
        cache_bytes_per_s_(context.parameters.number("cache_bytes_per_s")) {}

 private:
  void divide(const engine::PlaceView& place, std::span<Slots> slots, const StoreRate&) override {
    fill_.fill_least_windows(place, slots);
    const double store = store_bytes_per_s(place);
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

  // Where workers wait for the store, it brings all that it can while they prepare, too: reads go
  // on far ahead of them. Else it is taken for a little faster than it was ever seen.
  double store_bytes_per_s(const engine::PlaceView& place) {
    constexpr double kWaits = 0.05;
    constexpr double kTryMore = 1.25;
    double& most = store_[place.place];
    const double now = place.store_bytes_per_s;
    most = place.waits_for_reads > kWaits && now > 0 ? now : std::max(most, kTryMore * now);
    return most;
  }

  static double part_that_fits(const engine::ShareView& share, double memory) {
    return std::min(1.0, memory / bytes_of(share));
  }

  // The time in which a sample is read from the cache, if this part of the form is kept.
  double cache_s(const engine::ShareView& share, double part) const {
    if (cache_bytes_per_s_ <= 0 || share.samples_all == 0) return 0;
    return part * bytes_of(share) / static_cast<double>(share.samples_all) / cache_bytes_per_s_;
  }

  // By the time for a sample, where the workers, the store or the cache limits the others. Before
  // anything is measured, what is stored is kept.
  std::size_t chosen(const engine::PlaceView& place, double store, const Forms& forms,
                     double memory) const {
    if (forms.decoded == kNone || forms.encoded == kNone) {
      return forms.decoded == kNone ? forms.encoded : forms.decoded;
    }
    const engine::ShareView& encoded = place.shares[forms.encoded];
    const engine::ShareView& decoded = place.shares[forms.decoded];
    const MakingCosts costs(place, {}, encoded, decoded);
    if (!costs.known) return forms.encoded;
    const double store_s = store > 0 ? encoded.store_bytes / store : 0;
    const auto time = [&](const engine::ShareView& share, double part, double saved_s) {
      const double made_s = (costs.whole_s - part * saved_s) / place.workers;
      return std::max({made_s, store_s * (1 - part), cache_s(share, part)});
    };
    const double compute = time(encoded, 0, 0);
    const double source = time(encoded, part_that_fits(encoded, memory), 0);
    const double full =
        time(decoded, part_that_fits(decoded, memory), costs.whole_s - costs.random_s);
    if (compute <= source && compute <= full) return kNone;
    return source <= full ? forms.encoded : forms.decoded;
  }

  double cache_bytes_per_s_;  // 0: without a limit
  std::map<Place, double> store_;
};

}  // namespace

extern const engine::PolicyEntry allocation_cachew;
constexpr engine::PolicyEntry allocation_cachew{
    "cachew",
    "Keeps each dataset in the form that makes epochs shortest.\n"
    "Prepared from the store, made from stored samples that are kept, or from\n"
    "decoded ones: the least of three times (Cachew, ATC 2022).\n"
    "Departs from it: decoded samples stand for prepared ones, the part that\n"
    "fits is kept, and the rate of a cache on a volume is a parameter.",
    &make_policy<engine::AllocationPolicy, Cachew>, kParameters};

}  // namespace batchflow::policies
