// Proportional: shares that jobs read from divide a place in proportion to all they could keep.
#include "core/engine/policy_list.h"
#include "policies/allocation_forms.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

class Proportional final : public engine::AllocationPolicy {
 public:
  explicit Proportional(const engine::PolicyContext& context)
      : forms_(context.parameters.text("forms")) {}

  void allocate(const engine::PlaceView& place, std::span<Slots> slots) override {
    const Bytes left = forms_.serve_others(place, slots);
    Wide all = 0;
    for (const engine::ShareView& share : place.shares) all += could_keep(share);
    if (all == 0) return;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const engine::ShareView& share = place.shares[i];
      if (!forms_.keeps(share)) continue;
      // Both factors are below 2^64 once the sum is brought below it.
      const Wide part = could_keep(share) / scale(all);
      const Wide bytes = part * left / (all / scale(all) + (all % scale(all) != 0));
      slots[i] = static_cast<Slots>(bytes / share.slot_bytes);
    }
  }

 private:
  using Wide = unsigned __int128;

  Wide could_keep(const engine::ShareView& share) const {
    return forms_.keeps(share) ? static_cast<Wide>(share.slots_all) * share.slot_bytes : 0;
  }
  // The divisor that makes `all` fit 64 bits.
  static Wide scale(Wide all) { return (all >> 64) + 1; }

  KeptForms forms_;
};

constexpr Parameter kParameters[] = {kFormsParameter};

}  // namespace

extern const engine::PolicyEntry allocation_proportional;
constexpr engine::PolicyEntry allocation_proportional{
    "proportional",
    "Shares divide a place in proportion to all they could keep.\n"
    "A share is a dataset in a form, or the prepared blocks of a stream; shares\n"
    "that no job reads from get nothing.",
    &make_policy<engine::AllocationPolicy, Proportional>, kParameters};

}  // namespace batchflow::policies
