// An item stays until each job has used it since it came, and then makes room for the next.
//
// O. Desai et al., "Preparation Meets Opportunity: Enhancing Data Preprocessing for ML Training
// With Seneca", FAST 2026. Together with a selection that takes unseen samples which are kept, each
// item that one job has read serves all others once. Departs from it: there, only augmented samples
// leave; here, stored and decoded ones do, since nothing augmented is used twice.
//
// The jobs are those that have requested something within as many requests as twice the items.
#include <map>

#include "core/base/zero_array.h"
#include "core/engine/policy_list.h"
#include "policies/eviction_list.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

class Seneca final : public engine::EvictionPolicy {
 public:
  explicit Seneca(const engine::EvictionContext& context)
      : residents_(context.items),
        uses_(context.items),
        items_(context.items),
        capacity_(context.capacity) {}

  void hit(const engine::Access& access) override {
    request(access.job);
    use(access.item);
  }
  engine::Admission missed(const engine::Access& access) override {
    request(access.job);
    const Slots used = residents_.used(kToBeUsed) + residents_.used(kUsed);
    const Slots room = capacity_ - std::min(capacity_, used);
    return access.slots <= room + residents_.used(kUsed) ? engine::Admission::insert
                                                         : engine::Admission::bypass;
  }
  void inserted(const engine::Access& access) override {
    uses_[access.item.value] = 0;
    residents_.add(access.item, access.slots, kToBeUsed);
    use(access.item);
  }
  ItemId victim(const engine::Access&) override {
    const ItemId used = residents_.oldest(kUsed);
    return used.is_none() ? residents_.oldest(kToBeUsed) : used;
  }
  void removed(ItemId item, engine::Removal) override { residents_.take(item); }
  void pinned(ItemId item) override { residents_.put_aside(item); }
  void unpinned(ItemId item) override { residents_.bring_back(item); }
  void resized(Slots capacity) override { capacity_ = capacity; }
  void grow(std::size_t items) override {
    residents_.grow(items);
    uses_.grow(items);
    items_ = items;
  }
  void forget(ItemId item) override { uses_[item.value] = 0; }

 private:
  enum : unsigned { kToBeUsed, kUsed };
  static constexpr std::size_t kJobsMost = 1024;

  void request(JobId job) {
    ++requests_;
    if (job.is_none()) return;
    last_request_[job] = requests_;
    if (requests_ % kLookedAtEach == 0 || last_request_.size() > kJobsMost) {
      const std::uint64_t long_ago = requests_ - std::min<std::uint64_t>(requests_, 2 * items_);
      std::erase_if(last_request_, [&](const auto& one) { return one.second < long_ago; });
    }
  }
  void use(ItemId item) {
    if (++uses_[item.value] >= last_request_.size()) residents_.move(item, kUsed);
  }

  static constexpr std::uint64_t kLookedAtEach = 1024;

  Segments<2> residents_;
  ZeroArray<std::uint32_t> uses_;  // of a resident, since it came
  std::size_t items_;
  Slots capacity_;
  std::uint64_t requests_ = 0;
  std::map<JobId, std::uint64_t> last_request_;
};

}  // namespace

extern const engine::PolicyEntry eviction_seneca;
constexpr engine::PolicyEntry eviction_seneca{
    "seneca",
    "An item leaves once every job has used it.\n"
    "Made for a selection that takes samples which are kept: what one job read\n"
    "then serves each other job once (Seneca, FAST 2026).\n"
    "Departs from it: stored and decoded samples leave, since nothing augmented\n"
    "is kept.",
    &make_eviction<Seneca>};

}  // namespace batchflow::policies
