// Equal: every share of a place that anybody reads from gets as many bytes as any other.
#include <algorithm>

#include "core/policy_list.h"
#include "policies/make.h"

namespace batchflow {
namespace {

class Equal final : public AllocationPolicy {
 public:
  explicit Equal(const PolicyContext&) {}

  void allocate(const PlaceView& place, std::span<Slots> slots) override {
    const auto used = std::count_if(place.shares.begin(), place.shares.end(),
                                    [](const ShareView& share) { return share.jobs > 0; });
    if (used == 0) return;
    const Bytes each = place.capacity_bytes / static_cast<Bytes>(used);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (place.shares[i].jobs > 0) slots[i] = each / place.shares[i].slot_bytes;
    }
  }
};

}  // namespace

extern const PolicyEntry allocation_equal;
const PolicyEntry allocation_equal{
    "equal", "Every share of a place that a job reads from gets the same number of bytes.",
    &make_policy<AllocationPolicy, Equal>};

}  // namespace batchflow
