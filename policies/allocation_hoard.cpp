// Hoard and FanStore: a dataset is kept as a whole, or not at all.
//
// C. Pinto et al., "Hoard: A Distributed Data Caching System to Accelerate Deep Learning Training
// on the Cloud", 2018. Datasets are kept in the order in which jobs came to them, each in full, as
// long as there is room. A dataset that no job reads stays until another needs its room, and the
// most recently read leaves last. Z. Zhang et al., "FanStore: Enabling Efficient
// and Scalable I/O for Distributed Deep Learning", 2018, keeps all of a dataset on the nodes of
// its jobs and evicts nothing: it is the same with room for all. Departs from both: samples come
// in as jobs read them, not before.
#include <algorithm>
#include <map>
#include <vector>

#include "core/engine/policy_list.h"
#include "policies/allocation_fill.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    {"forms", Parameter::Type::text, "encoded+prepared", kFormsParameter.help},
};

class Hoard final : public engine::AllocationPolicy {
 public:
  explicit Hoard(const engine::PolicyContext& context) : fill_(context.parameters.text("forms")) {}

  void allocate(const engine::PlaceView& place, std::span<Slots> slots) override {
    if (!fill_.begin(place, slots)) return;
    fill_.fill_least_windows(place, slots);
    std::map<DatasetId, std::uint64_t>& came = came_[place.place];
    whole_.clear();
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const engine::ShareView& share = place.shares[i];
      if (share.form == Form::prepared || !fill_.keeps(share)) continue;
      const auto [at, is_new] = came.try_emplace(share.dataset, turns_);
      if (is_new) ++turns_;
      whole_.push_back({at->second, i});
    }
    std::sort(whole_.begin(), whole_.end(), [](const Whole& a, const Whole& b) {
      return a.came != b.came ? a.came < b.came : a.share < b.share;
    });
    for (const Whole& one : whole_) {
      const engine::ShareView& share = place.shares[one.share];
      if (fill_.room() / share.slot_bytes >= share.slots_all) {
        fill_.give(share, slots[one.share], share.slots_all);
      }
    }
    // A dataset that jobs come back to is as new.
    std::erase_if(came, [&](const auto& one) {
      return std::none_of(place.shares.begin(), place.shares.end(), [&](const auto& share) {
        return share.dataset == one.first && share.jobs > 0;
      });
    });
  }

 private:
  struct Whole {
    std::uint64_t came;
    std::size_t share;
  };
  Fill fill_;
  std::uint64_t turns_ = 0;
  std::map<Place, std::map<DatasetId, std::uint64_t>> came_;
  std::vector<Whole> whole_;  // scratch
};

}  // namespace

extern const engine::PolicyEntry allocation_hoard;
constexpr engine::PolicyEntry allocation_hoard{
    "hoard",
    "A dataset is kept as a whole, or not at all.\n"
    "In the order in which jobs came to them (Hoard, FanStore). Datasets that\n"
    "no job reads keep what is left over.\n"
    "Departs from it: samples come in as jobs read them, not before.",
    &make_policy<engine::AllocationPolicy, Hoard>, kParameters};

}  // namespace batchflow::policies
