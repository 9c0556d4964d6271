// By jobs: a share gets memory for each job that reads from it.
#include "core/policy_list.h"
#include "policies/make.h"

namespace batchflow {
namespace {

class ByJobs final : public AllocationPolicy {
 public:
  explicit ByJobs(const PolicyContext&) {}

  void allocate(const PlaceView& place, std::span<Slots> slots) override {
    Bytes jobs = 0;
    for (const ShareView& share : place.shares) jobs += share.jobs;
    if (jobs == 0) return;  // nobody reads: all stay at zero
    const Bytes each = place.capacity_bytes / jobs;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      slots[i] = each * place.shares[i].jobs / place.shares[i].slot_bytes;
    }
  }
};

}  // namespace

extern const PolicyEntry allocation_by_jobs;
const PolicyEntry allocation_by_jobs{"by-jobs",
                                     "A share gets memory for each job that reads from it.",
                                     &make_policy<AllocationPolicy, ByJobs>};

}  // namespace batchflow
