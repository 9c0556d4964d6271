// Equal: every share that a job reads from gets as many bytes of its place as any other.
#include <algorithm>

#include "core/engine/policy_list.h"
#include "policies/allocation_forms.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

class Equal final : public engine::AllocationPolicy {
 public:
  explicit Equal(const engine::PolicyContext& context) : forms_(context.parameters.text("forms")) {}

  void allocate(const engine::PlaceView& place, std::span<Slots> slots) override {
    const Bytes left = forms_.serve_others(place, slots);
    const auto used =
        std::count_if(place.shares.begin(), place.shares.end(),
                      [&](const engine::ShareView& share) { return forms_.keeps(share); });
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

extern const engine::PolicyEntry allocation_equal;
constexpr engine::PolicyEntry allocation_equal{
    "equal", "Every share that a job reads from gets the same bytes.",
    &make_policy<engine::AllocationPolicy, Equal>, kParameters};

}  // namespace batchflow::policies
