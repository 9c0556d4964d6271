// MinIO: fill, then neither insert nor evict.
//
// J. Mohan, A. Phanishayee, A. Raniwala, V. Chidambaram, "Analyzing and Mitigating Data Stalls in
// DNN Training" (CoorDL), VLDB 2021. One job that reads a permutation an epoch cannot do better.
#include "core/engine/policy_list.h"
#include "policies/dense_list.h"
#include "policies/eviction_list.h"

namespace batchflow::policies {
namespace {

class MinIo final : public engine::EvictionPolicy {
 public:
  explicit MinIo(const engine::EvictionContext& context)
      : residents_(context.items), capacity_(context.capacity) {}

  void hit(const engine::Access&) override {}
  engine::Admission missed(const engine::Access& access) override {
    const bool room = access.slots <= capacity_ && residents_.used(0) <= capacity_ - access.slots;
    return room ? engine::Admission::insert : engine::Admission::bypass;
  }
  void inserted(const engine::Access& access) override {
    residents_.add(access.item, access.slots, 0);
  }
  // Asked only when the share shrinks or an item is forced in: then the newest item leaves.
  ItemId victim(const engine::Access&) override { return residents_.newest(0); }
  void removed(ItemId item, engine::Removal) override { residents_.take(item); }
  void pinned(ItemId item) override { residents_.put_aside(item); }
  void unpinned(ItemId item) override { residents_.bring_back_as_newest(item); }
  void resized(Slots capacity) override { capacity_ = capacity; }
  void grow(std::size_t items) override { residents_.grow(items); }
  void forget(ItemId) override {}

 private:
  Segments<1> residents_;
  Slots capacity_;
};

}  // namespace

extern const engine::PolicyEntry eviction_minio;
const engine::PolicyEntry eviction_minio{
    "minio",
    "Fills, then neither inserts nor evicts.\n"
    "The best there is for one job that reads each sample once an epoch\n"
    "(CoorDL, VLDB 2021).",
    &make_eviction<MinIo>};

}  // namespace batchflow::policies
