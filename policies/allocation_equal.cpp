// Equal: every share that a job reads from gets as many bytes of its place as any other.
#include <algorithm>

#include "core/policy_list.h"
#include "policies/allocation_forms.h"
#include "policies/make.h"

namespace batchflow {
namespace {

class Equal final : public AllocationPolicy {
 public:
  explicit Equal(const PolicyContext& context) : forms_(context.parameters.text("forms")) {}

  void allocate(const PlaceView& place, std::span<Slots> slots) override {
    const Bytes left = forms_.serve_others(place, slots);
    const auto used = std::count_if(place.shares.begin(), place.shares.end(),
                                    [&](const ShareView& share) { return forms_.keeps(share); });
    if (used == 0) return;
    const Bytes each = left / static_cast<Bytes>(used);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (forms_.keeps(place.shares[i])) slots[i] = each / place.shares[i].slot_bytes;
    }
  }

 private:
  KeptForms forms_;
};

constexpr Parameter kParameters[] = {kFormsParameter};

}  // namespace

extern const PolicyEntry allocation_equal;
const PolicyEntry allocation_equal{"equal",
                                   "Every share that a job reads from gets the same bytes.",
                                   &make_policy<AllocationPolicy, Equal>, kParameters};

}  // namespace batchflow
