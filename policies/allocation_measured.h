// The common part of policies that divide memory by what is measured, again and again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>

#include "core/base/saturating.h"
#include "core/engine/policy.h"
#include "policies/allocation_fill.h"

namespace batchflow::policies {

constexpr Parameter period_parameter(std::string_view seconds) {
  return {"period_s", Parameter::Type::number,
          seconds,    "how many seconds until memory is divided anew",
          0.01,       3600};
}

// What the store can bring a place: what it brought when workers had to wait for it, or else more
// than it was ever seen to bring.
class StoreRate {
 public:
  void learn(const engine::PlaceView& place) {
    constexpr double kWaits = 0.05;
    constexpr double kTryMore = 1.25;
    const double now = place.store_bytes_per_s;
    if (place.waits_for_reads > kWaits && now > 0) {
      const double most = now / std::max(kWaits, 1 - place.busy * (1 - place.waits_for_reads));
      most_ = most_ == 0 ? most : most_ + 0.3 * (most - most_);
      most_ = std::max(most_, now);
    } else {
      most_ = std::max(most_, kTryMore * now);
    }
  }
  // Bytes a second; 0: it was never seen to bring any.
  double most() const { return most_; }

 private:
  double most_ = 0;
};

class MeasuredAllocation : public engine::AllocationPolicy {
 public:
  explicit MeasuredAllocation(const engine::PolicyContext& context)
      : fill_(context.parameters.text("forms")),
        period_(static_cast<std::int64_t>(context.parameters.number("period_s") * 1e9)) {}

  void allocate(const engine::PlaceView& place, std::span<Slots> slots) final {
    const bool any = std::any_of(place.shares.begin(), place.shares.end(),
                                 [](const engine::ShareView& share) { return share.jobs > 0; });
    asks_again_ = any ? after(place.now, period_) : kNever;
    StoreRate& store = stores_[place.place];
    store.learn(place);
    if (fill_.begin(place, slots)) divide(place, slots, store);
  }
  Instant ask_again() final { return asks_again_; }
  bool wants_measures() const final { return true; }

 protected:
  // Shares have what they were promised.
  virtual void divide(const engine::PlaceView& place, std::span<Slots> slots,
                      const StoreRate& store) = 0;

  // The samples of a dataset in the forms that are to be kept, as indices among the shares.
  static constexpr std::size_t kNone = SIZE_MAX;
  struct Forms {
    std::size_t encoded = kNone;
    std::size_t decoded = kNone;
    std::uint32_t jobs = 0;
  };
  std::map<DatasetId, Forms> forms_of(const engine::PlaceView& place) const {
    std::map<DatasetId, Forms> datasets;
    for (std::size_t i = 0; i < place.shares.size(); ++i) {
      const engine::ShareView& share = place.shares[i];
      if (!fill_.keeps(share) || share.form == Form::prepared || share.slots_all == 0) continue;
      Forms& forms = datasets[share.dataset];
      (share.form == Form::encoded ? forms.encoded : forms.decoded) = i;
      forms.jobs = std::max(forms.jobs, share.jobs);
    }
    return datasets;
  }

  // The shares of samples get all that they could keep, those with the greatest value first.
  template <class Value>
  void fill_by(const engine::PlaceView& place, std::span<Slots> slots, Value value) {
    by_value_.clear();
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const engine::ShareView& share = place.shares[i];
      if (!fill_.keeps(share) || share.form == Form::prepared) continue;
      by_value_.push_back({value(share), i});
    }
    std::sort(by_value_.begin(), by_value_.end(), [](const Valued& a, const Valued& b) {
      return a.value != b.value ? a.value > b.value : a.share < b.share;
    });
    for (const Valued& one : by_value_) {
      const engine::ShareView& share = place.shares[one.share];
      fill_.give(share, slots[one.share], share.slots_all);
    }
  }

  static double bytes_of(const engine::ShareView& share) {
    return static_cast<double>(share.slots_all) * static_cast<double>(share.slot_bytes);
  }

  Fill fill_;

 private:
  struct Valued {
    double value;
    std::size_t share;
  };
  Duration period_;
  Instant asks_again_ = kNever;
  std::map<Place, StoreRate> stores_;
  std::vector<Valued> by_value_;  // scratch
};

// What is measured of the making of a dataset's samples on a node.
struct MakingCosts {
  double whole_s = 0;   // of a worker, from the sample as it is stored
  double random_s = 0;  // from the decoded sample
  double store_s = 0;   // of the store
  bool known = false;

  MakingCosts(const engine::PlaceView& place, const StoreRate& store,
              const engine::ShareView& encoded, const engine::ShareView& decoded) {
    if (decoded.made_per_s <= 0 || place.workers == 0) return;
    known = true;
    const double kept =
        static_cast<double>(decoded.slots_used) / static_cast<double>(decoded.slots_all);
    const double mean_s = place.busy * place.workers / decoded.made_per_s;
    whole_s = mean_s + kept * decoded.worker_s;
    random_s = std::max(whole_s - decoded.worker_s, whole_s / 100);
    if (store.most() > 0) store_s = encoded.store_bytes / store.most();
  }
};

}  // namespace batchflow::policies
