// Random: each resident is as likely to leave as any other.
#include "core/policy_list.h"
#include "policies/eviction_list.h"

namespace batchflow {
namespace {

class RandomEviction final : public EvictionPolicy {
 public:
  explicit RandomEviction(const EvictionContext& context)
      : place_(context.items), at_(context.items), random_(context.random) {}

  void hit(const Access&) override {}
  Admission missed(const Access&) override { return Admission::insert; }
  void inserted(const Access& access) override {
    place_[access.item.value] = count_;
    at_[count_++] = access.item.value;
  }
  // Pinned ones are drawn again; should that not end, the next after the drawn place goes.
  ItemId victim(const Access&, const Pins& pins) override {
    if (count_ == 0) return ItemId::none();
    std::uint32_t drawn = draw();
    for (int tries = 0; pins.any() && pins.pinned(ItemId(at_[drawn])); ++tries) {
      if (tries == kTries) return next_unpinned(drawn, pins);
      drawn = draw();
    }
    return ItemId(at_[drawn]);
  }
  void removed(ItemId item, Removal) override {
    const std::uint32_t last = at_[--count_];
    at_[place_[item.value]] = last;
    place_[last] = place_[item.value];
  }
  void resized(Slots) override {}
  void grow(std::size_t items) override {
    place_.grow(items);
    at_.grow(items);
  }
  void forget(ItemId) override {}

 private:
  static constexpr int kTries = 16;

  std::uint32_t draw() { return static_cast<std::uint32_t>(random_.below(count_)); }
  ItemId next_unpinned(std::uint32_t from, const Pins& pins) const {
    for (std::uint32_t i = 0; i < count_; ++i) {
      const ItemId item(at_[(from + i) % count_]);
      if (!pins.pinned(item)) return item;
    }
    return ItemId::none();
  }

  ZeroArray<std::uint32_t> place_;  // of a resident in at_
  ZeroArray<std::uint32_t> at_;     // the residents, in no order
  std::uint32_t count_ = 0;
  Random random_;
};

}  // namespace

extern const PolicyEntry eviction_random;
const PolicyEntry eviction_random{"random",
                                  "An item drawn at random leaves.\n"
                                  "What a page cache under pressure comes close to.",
                                  &make_eviction<RandomEviction>};

}  // namespace batchflow
