// Reference count: an item leaves when all jobs that need it have had it. For prepared blocks:
// the engine knows exactly how many users are to come.
#include "core/engine/policy_list.h"
#include "policies/eviction_list.h"

namespace batchflow::policies {
namespace {

class RefCount final : public OneListEviction {
 public:
  explicit RefCount(const engine::EvictionContext& context)
      : OneListEviction(context), unneeded_(context.items), jobs_(context.items) {}

  void inserted(const engine::Access& access) override {
    OneListEviction::inserted(access);
    jobs_[access.item.value] = 0;  // until the engine says more
    unneeded_.add_newest(access.item);
  }
  void needed(ItemId item, std::uint32_t jobs) override {
    std::uint32_t& before = jobs_[item.value];
    if (before == 0 && jobs != 0) unneeded_.take(item);
    if (before != 0 && jobs == 0) unneeded_.add_newest(item);
    before = jobs;
  }
  // The item that no job has needed for the longest time; if all are needed, the item inserted
  // first.
  ItemId victim(const engine::Access&) override {
    if (const auto item = oldest_to_leave(unneeded_); !item.is_none()) return item;
    return oldest_to_leave(list_);
  }
  void pinned(ItemId item) override {
    OneListEviction::pinned(item);
    if (jobs_[item.value] == 0) unneeded_.take(item);
  }
  void unpinned(ItemId item) override {
    OneListEviction::unpinned(item);
    if (jobs_[item.value] == 0) unneeded_.add_oldest(item);
  }
  void removed(ItemId item, engine::Removal why) override {
    OneListEviction::removed(item, why);
    if (jobs_[item.value] == 0) unneeded_.take(item);
  }
  void grow(std::size_t items) override {
    OneListEviction::grow(items);
    unneeded_.grow(items);
    jobs_.grow(items);
  }

 private:
  DenseLists<> unneeded_;  // those of list_ that no job needs
  ZeroArray<std::uint32_t> jobs_;
};

}  // namespace

extern const engine::PolicyEntry eviction_refcount;
constexpr engine::PolicyEntry eviction_refcount{
    "refcount",
    "What no job needs any more leaves first.\n"
    "Then what was inserted earliest. For prepared blocks: their users are\n"
    "known exactly; elsewhere it is fifo.",
    &make_eviction<RefCount>};

}  // namespace batchflow::policies
