// Random: each resident is as likely to leave as any other.
#include "core/engine/policy_list.h"
#include "policies/eviction_list.h"

namespace batchflow::policies {
namespace {

class RandomEviction final : public engine::EvictionPolicy {
 public:
  explicit RandomEviction(const engine::EvictionContext& context)
      : index_(context.items), at_(context.items), random_(context.random) {}

  void hit(const engine::Access&) override {}
  engine::Admission missed(const engine::Access&) override { return engine::Admission::insert; }
  void inserted(const engine::Access& access) override {
    if (aside_ > 0) put(count_ + aside_, at_[count_]);
    put(count_++, access.item.value);
  }
  ItemId victim(const engine::Access&) override {
    return count_ == 0 ? ItemId::none() : ItemId(at_[random_.below(count_)]);
  }
  void removed(ItemId item, engine::Removal) override {
    put(index_[item.value], at_[--count_]);
    if (aside_ > 0) put(count_, at_[count_ + aside_]);
  }
  // Pinned items stand behind the items that are drawn from.
  void pinned(ItemId item) override {
    put(index_[item.value], at_[--count_]);
    put(count_, item.value);
    ++aside_;
  }
  void unpinned(ItemId item) override {
    put(index_[item.value], at_[count_]);
    put(count_++, item.value);
    --aside_;
  }
  void resized(Slots) override {}
  void grow(std::size_t items) override {
    index_.grow(items);
    at_.grow(items);
  }
  void forget(ItemId) override {}

 private:
  void put(std::uint32_t index, std::uint32_t item) {
    at_[index] = item;
    index_[item] = index;
  }

  ZeroArray<std::uint32_t> index_;  // of a resident in at_
  ZeroArray<std::uint32_t>
      at_;                   // the residents, in no order: items to draw from, then pinned items
  std::uint32_t count_ = 0;  // of items to draw from
  std::uint32_t aside_ = 0;
  Random random_;
};

}  // namespace

extern const engine::PolicyEntry eviction_random;
constexpr engine::PolicyEntry eviction_random{
    .name = "random",
    .help =
        "An item drawn at random leaves.\n"
        "What a page cache under pressure comes close to.",
    .make = &make_eviction<RandomEviction>,
    .ignores_hits = true};

}  // namespace batchflow::policies
