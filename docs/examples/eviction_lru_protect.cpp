// LRU in two parts: what was used again is protected from what is new.
#include "core/engine/policy_list.h"
#include "policies/dense_list.h"
#include "policies/eviction_list.h"

namespace batchflow::policies {
namespace {

constexpr Parameter kParameters[] = {
    {.name = "protected",
     .type = Parameter::Type::number,
     .default_value = "0.5",
     .help = "part of the capacity for items that were used again",
     .least = 0,
     .greatest = 1},
};

class LruProtect final : public engine::EvictionPolicy {
 public:
  explicit LruProtect(const engine::EvictionContext& context)
      : part_(context.parameters.number("protected")), lists_(context.items) {
    resized(context.capacity);
  }

  void hit(const engine::Access& access) override {
    lists_.move(access.item, kProtected);
    while (lists_.used(kProtected) > most_ && !lists_.empty(kProtected)) {
      lists_.move(lists_.oldest(kProtected), kNew);
    }
  }
  engine::Admission missed(const engine::Access&) override { return engine::Admission::insert; }
  void inserted(const engine::Access& access) override {
    lists_.add(access.item, access.slots, kNew);
  }
  ItemId victim(const engine::Access&) override {
    const ItemId item = lists_.oldest(kNew);
    return item.is_none() ? lists_.oldest(kProtected) : item;
  }
  void removed(ItemId item, engine::Removal) override { lists_.take(item); }
  void pinned(ItemId item) override { lists_.put_aside(item); }
  void unpinned(ItemId item) override { lists_.bring_back(item); }
  void resized(Slots capacity) override {
    most_ = static_cast<Slots>(part_ * static_cast<double>(capacity));
  }
  void grow(std::size_t items) override { lists_.grow(items); }
  void forget(ItemId) override {}  // it keeps nothing of those that left

 private:
  static constexpr unsigned kNew = 0, kProtected = 1;
  double part_;
  Slots most_ = 0;
  Segments<2> lists_;
};

}  // namespace

extern const engine::PolicyEntry eviction_lru_protect;
constexpr engine::PolicyEntry eviction_lru_protect{
    "lru-protect",
    "Least recently used leaves, but first what was used once.\n"
    "A scan of new items cannot push out what is in use.",
    &make_eviction<LruProtect>, kParameters};

}  // namespace batchflow::policies
