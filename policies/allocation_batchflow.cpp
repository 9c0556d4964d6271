// BatchFlow's own: memory by what it was measured to save.
//
// The windows of prepared blocks come first, as large as ranks need and as the engine's lanes are
// long. What is left goes to stored and decoded samples. Both save the store, decoded ones also the
// workers, at several times the bytes. Which is worth more follows from what limits the jobs, so
// the split is the one in which the more loaded of the two is loaded least
// (policies/memory_split.h). It is made from what a sample was measured to cost, how many are made
// a second, and what the store has brought so far. It is made again every few seconds while that
// changes.
//
// Where several jobs read a dataset in orders of their own, the first tenth that is kept of it
// serves far more look-ups than the last. So no dataset gets all of the memory because it is worth
// a little more than another (policies/hit_curve.h).
//
// A window holds the blocks that some job has yet to take, with room for half as many more, for a
// lane where jobs share, and for yet more where blocks have to be made again in spite of that.
#include <algorithm>
#include <map>
#include <vector>

#include "core/base/rates.h"
#include "core/base/saturating.h"
#include "core/engine/policy_list.h"
#include "policies/allocation_measured.h"
#include "policies/hit_curve.h"
#include "policies/make.h"
#include "policies/memory_split.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    kFormsParameter,
    {"period_s", Parameter::Type::number, "1",
     "how many seconds until memory is divided anew, as long as that changes much", 0.01, 3600},
};

class BatchFlow final : public engine::AllocationPolicy {
 public:
  explicit BatchFlow(const engine::PolicyContext& context)
      : fill_(context.parameters.text("forms")),
        period_(static_cast<std::int64_t>(context.parameters.number("period_s") * 1e9)) {}

  void allocate(const engine::PlaceView& place, std::span<Slots> slots) override {
    asks_again_ = kNever;
    forecast_ = {};
    if (!fill_.begin(place, slots)) return;
    PlaceState& state = places_[place.place];
    learn(place, state);
    if (state.measured) {
      fill_windows(place, slots, state);
      split(place, slots, state);
    } else {
      fill_.fill_windows(place, slots, two_lanes);
    }
    // What is left, and all of it before anything is measured.
    for (const Form form : {Form::encoded, Form::decoded, Form::prepared}) {
      fill_.fill_all(place, slots, form);
    }
    schedule(place, slots, state);
  }
  Instant ask_again() override { return asks_again_; }
  bool wants_measures() const override { return true; }
  engine::Forecast forecast() const override { return forecast_; }

 private:
  struct Window {
    double needed = 0;  // blocks, the most of late
    double times = kTimesLeast;
    Instant seen{};
    Instant grown{};
  };
  struct PlaceState {
    bool measured = false;
    StoreRate store;
    Duration period{};
    std::map<ShareId, Window> windows;
    std::map<DatasetId, HitCurve> curves;
  };

  void learn(const engine::PlaceView& place, PlaceState& state) const {
    state.measured = std::any_of(
        place.shares.begin(), place.shares.end(),
        [](const engine::ShareView& share) { return share.made_per_s > 0 && share.jobs > 0; });
    state.store.learn(place);
  }

  // The samples of all forms that are made again and again, and what each would save.
  void split(const engine::PlaceView& place, std::span<Slots> slots, PlaceState& state) {
    kept_.clear();
    share_of_.clear();
    datasets_.clear();
    learn_curves(place, state);
    MemorySplit::Loads loads;
    loads.workers_most = std::max<double>(1, place.workers);
    loads.workers = place.busy * place.workers;
    double stored = 0;  // bytes a second that are made from
    for (std::size_t i = 0; i < place.shares.size(); ++i) {
      const engine::ShareView& share = place.shares[i];
      if (share.form == Form::prepared || share.jobs == 0 || share.slots_all == 0) continue;
      const double has =
          static_cast<double>(share.slots_used) / static_cast<double>(share.slots_all);
      const double saves_workers =
          share.form == Form::decoded ? share.made_per_s * share.worker_s : 0;
      const double saves_store = share.made_per_s * share.store_bytes;
      if (share.form == Form::encoded) stored += saves_store;
      const HitCurve& curve = state.curves[share.dataset];
      loads.workers += curve.found(has) * saves_workers;
      if (!fill_.keeps(share)) continue;
      const auto [dataset, is_new] = datasets_.try_emplace(share.dataset, datasets_.size());
      const double bytes =
          static_cast<double>(share.slots_all) * static_cast<double>(share.slot_bytes);
      kept_.push_back({dataset->second, share.form == Form::encoded, bytes, saves_workers,
                       saves_store, curve.exponent()});
      share_of_.push_back(i);
    }
    loads.store = stored;
    // A store that was never seen to limit anything is taken for one that does not.
    loads.store_most = state.store.most() > 0 ? state.store.most() : std::max(1.0, stored);
    if (kept_.empty()) return;
    const MemorySplit::Parts& parts =
        solver_.solve(kept_, loads, static_cast<double>(fill_.room()));
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      const engine::ShareView& share = place.shares[share_of_[i]];
      const double part = parts[i];
      const double wanted = part * static_cast<double>(share.slots_all);
      const auto most = wanted < static_cast<double>(share.slots_all) ? static_cast<Slots>(wanted)
                                                                      : share.slots_all;
      fill_.give(share, slots[share_of_[i]], most);
    }
    forecast_.busy = std::clamp(solver_.worker_load(parts), 0.0, 1.0);
    forecast_.store_bytes_per_s = std::max(solver_.store_load(parts), 0.0) * loads.store_most;
  }

  // Of each dataset, how much is kept in any form, and how much of what was looked up was found.
  void learn_curves(const engine::PlaceView& place, PlaceState& state) {
    looked_up_.clear();
    for (const engine::ShareView& share : place.shares) {
      if (share.jobs == 0 || share.slots_all == 0) continue;
      LookedUp& dataset = looked_up_[share.dataset];
      if (share.form == Form::prepared) {
        ++dataset.orders;
        continue;
      }
      // What is not found decoded is looked up as it is stored.
      const double hits = share.requests_per_s * share.hit_ratio;
      dataset.kept += static_cast<double>(share.slots_used) / static_cast<double>(share.slots_all);
      dataset.hits += hits;
      dataset.misses += share.form == Form::encoded ? share.requests_per_s - hits : 0;
    }
    for (const auto& [id, dataset] : looked_up_) {
      if (dataset.orders <= 1) {
        state.curves[id] = HitCurve();
        continue;
      }
      HitCurve& curve = state.curves.try_emplace(id, kSeveralOrders).first->second;
      const double all = dataset.hits + dataset.misses;
      if (all > 0) curve.learn(place.now, dataset.kept, dataset.hits / all);
    }
    std::erase_if(state.curves, [&](const auto& one) { return !looked_up_.contains(one.first); });
  }

  void fill_windows(const engine::PlaceView& place, std::span<Slots> slots, PlaceState& state) {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const engine::ShareView& share = place.shares[i];
      if (share.form != Form::prepared || !fill_.keeps(share)) continue;
      Window& window = state.windows[share.share];
      const double fades = decay(std::max(place.now - window.seen, Duration(0)), kWindowFades);
      window.needed = std::max(static_cast<double>(share.slots_needed), window.needed * fades);
      const double blocks_per_s =
          share.made_per_s * static_cast<double>(share.slots_all) /
          static_cast<double>(std::max<std::uint64_t>(1, share.samples_all));
      window.times = kTimesLeast + (window.times - kTimesLeast) * fades;
      window.seen = place.now;
      // A single job has its blocks made again only where they were lost.
      const bool remade = share.jobs > 1 && share.remade_per_s > kRemadeMost * blocks_per_s;
      if (!remade || place.now < after(window.grown, kGrowth)) continue;
      window.times = std::min(window.times * 1.25, kTimesMost);
      window.grown = place.now;
    }
    // Another stream may get the number of a share that is gone.
    std::erase_if(state.windows, [&](const auto& one) { return one.second.seen != place.now; });
    fill_.fill_windows(place, slots, [&](const engine::ShareView& share) {
      const Window& window = state.windows[share.share];
      // A single job takes what is made for it in turn: it needs no more than is made ahead.
      const Slots shared = share.jobs > 1 ? two_lanes(share) / 2 : 0;
      const auto wanted = static_cast<Slots>(window.times * window.needed) + shared;
      return std::min(wanted, share.slots_all);
    });
  }

  // The more is changed, the sooner it is looked at again. Without jobs nothing changes.
  void schedule(const engine::PlaceView& place, std::span<const Slots> slots, PlaceState& state) {
    double moved = 0;
    bool jobs = false;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const engine::ShareView& share = place.shares[i];
      jobs = jobs || share.jobs > 0;
      const Slots more = std::max(slots[i], share.slots_now) - std::min(slots[i], share.slots_now);
      moved += static_cast<double>(more) * static_cast<double>(share.slot_bytes);
    }
    const bool much = moved > kMuch * static_cast<double>(place.capacity_bytes);
    state.period =
        much || !state.measured ? period_ : std::min(state.period * 3 / 2, kPeriodMost * period_);
    state.period = std::max(state.period, period_);
    if (jobs) asks_again_ = after(place.now, state.period);
  }

  // Where several orders read a dataset: between one order (1), and several that are known (0.5).
  static constexpr double kSeveralOrders = 0.7;
  static constexpr double kMuch = 0.01;
  static constexpr int kPeriodMost = 30;
  static constexpr Duration kWindowFades = std::chrono::seconds(60);
  static constexpr Duration kGrowth = std::chrono::seconds(5);
  static constexpr double kTimesLeast = 1.5;
  static constexpr double kTimesMost = 4;
  static constexpr double kRemadeMost = 0.01;  // of the blocks that are made

  struct LookedUp {
    std::uint32_t orders = 0;
    double kept = 0;  // the part of the dataset
    double hits = 0;  // a second
    double misses = 0;
  };

  Fill fill_;
  Duration period_;
  Instant asks_again_ = kNever;
  engine::Forecast forecast_;
  MemorySplit solver_;
  std::map<Place, PlaceState> places_;
  std::vector<MemorySplit::Kept> kept_;        // scratch
  std::vector<std::size_t> share_of_;          // scratch
  std::map<DatasetId, std::size_t> datasets_;  // scratch
  std::map<DatasetId, LookedUp> looked_up_;    // scratch
};

}  // namespace

extern const engine::PolicyEntry allocation_batchflow;
constexpr engine::PolicyEntry allocation_batchflow{
    "batchflow",
    "Memory goes to what is measured to save most.\n"
    "Stored and decoded samples are split so that workers and store, whichever\n"
    "limits the jobs more, limit them least; windows of prepared blocks grow\n"
    "where blocks had to be made again.",
    &make_policy<engine::AllocationPolicy, BatchFlow>, kParameters};

}  // namespace batchflow::policies
