// By jobs: a share gets memory for each job that reads from it.
#include "core/engine/policy_list.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

class ByJobs final : public engine::AllocationPolicy {
 public:
  explicit ByJobs(const engine::PolicyContext&) {}

  void allocate(const engine::PlaceView& place, std::span<Slots> slots) override {
    Bytes jobs = 0;
    for (const engine::ShareView& share : place.shares) jobs += share.jobs;
    if (jobs == 0) return;  // no job reads: all stay at zero
    const Bytes each = place.capacity_bytes / jobs;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      slots[i] = each * place.shares[i].jobs / place.shares[i].slot_bytes;
    }
  }
};

}  // namespace

extern const engine::PolicyEntry allocation_by_jobs;
constexpr engine::PolicyEntry allocation_by_jobs{
    "by-jobs", "A share gets memory for each job that reads from it.",
    &make_policy<engine::AllocationPolicy, ByJobs>};

}  // namespace batchflow::policies
