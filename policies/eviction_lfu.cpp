// LFU: the least used item leaves; of equals the least recently used. Uses are forgotten on
// eviction.
//
// Items of equal use stand in one list in order of their last access. A hit moves an item to the
// newest end of the next list, so every step is O(1).
#include <algorithm>
#include <vector>

#include "core/engine/policy_list.h"
#include "policies/eviction_list.h"

namespace batchflow::policies {
namespace {

constexpr std::uint32_t kNone = UINT32_MAX;

class Lfu final : public engine::EvictionPolicy {
 public:
  explicit Lfu(const engine::EvictionContext& context) : nodes_(context.items) {}

  void hit(const engine::Access& access) override {
    const std::uint32_t item = access.item.value;
    const std::uint32_t from = nodes_[item].group;
    const std::uint64_t uses = groups_[from].uses + 1;
    std::uint32_t to = groups_[from].more;
    if (to == kNone || groups_[to].uses != uses) {
      if (groups_[from].newest ==
          groups_[from].oldest) {  // alone: its group takes the next number of uses
        groups_[from].uses = uses;
        return;
      }
      to = add_group(uses, from);
    }
    leave(item);
    enter(item, to);
  }
  engine::Admission missed(const engine::Access&) override { return engine::Admission::insert; }
  void inserted(const engine::Access& access) override {
    if (least_ == kNone || groups_[least_].uses != 1) add_group(1, kNone);
    enter(access.item.value, least_);
  }
  ItemId victim(const engine::Access&) override {
    return least_ == kNone ? ItemId::none() : ItemId(groups_[least_].oldest);
  }
  void removed(ItemId item, engine::Removal) override { leave(item.value); }
  // The item was used least: it comes back with its uses, or with those of the least used item by
  // then.
  void pinned(ItemId item) override {
    const std::uint64_t uses = groups_[nodes_[item.value].group].uses;
    leave(item.value);
    nodes_[item.value].group = static_cast<std::uint32_t>(std::min<std::uint64_t>(uses, kNone));
  }
  void unpinned(ItemId item) override {
    const std::uint32_t uses = nodes_[item.value].group;
    if (least_ == kNone || uses < groups_[least_].uses) add_group(uses, kNone);
    enter_as_oldest(item.value, least_);
  }
  void resized(Slots) override {}
  void grow(std::size_t items) override { nodes_.grow(items); }
  void forget(ItemId) override {}

 private:
  struct Node {
    std::uint32_t newer;
    std::uint32_t older;
    std::uint32_t group;  // of a pinned item that was named: its uses
  };
  struct Group {  // the items of one number of uses; never empty
    std::uint64_t uses;
    std::uint32_t less;
    std::uint32_t more;
    std::uint32_t newest;
    std::uint32_t oldest;
  };

  // Adds it after the group `less`, or first.
  std::uint32_t add_group(std::uint64_t uses, std::uint32_t less) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(groups_.size()));
      groups_.emplace_back();
    }
    const std::uint32_t group = free_.back();
    free_.pop_back();
    const std::uint32_t more = less == kNone ? least_ : groups_[less].more;
    groups_[group] = {uses, less, more, kNone, kNone};
    (less == kNone ? least_ : groups_[less].more) = group;
    if (more != kNone) groups_[more].less = group;
    return group;
  }
  void enter(std::uint32_t item, std::uint32_t to) {
    Group& group = groups_[to];
    nodes_[item] = {kNone, group.newest, to};
    (group.newest == kNone ? group.oldest : nodes_[group.newest].newer) = item;
    group.newest = item;
  }
  void enter_as_oldest(std::uint32_t item, std::uint32_t to) {
    Group& group = groups_[to];
    nodes_[item] = {group.oldest, kNone, to};
    (group.oldest == kNone ? group.newest : nodes_[group.oldest].older) = item;
    group.oldest = item;
  }
  void leave(std::uint32_t item) {
    const Node node = nodes_[item];
    Group& group = groups_[node.group];
    (node.newer == kNone ? group.newest : nodes_[node.newer].older) = node.older;
    (node.older == kNone ? group.oldest : nodes_[node.older].newer) = node.newer;
    if (group.newest != kNone) return;
    (group.less == kNone ? least_ : groups_[group.less].more) = group.more;
    if (group.more != kNone) groups_[group.more].less = group.less;
    free_.push_back(node.group);
  }

  ZeroArray<Node> nodes_;
  std::vector<Group> groups_;  // as many as there are different numbers of uses
  std::vector<std::uint32_t> free_;
  std::uint32_t least_ = kNone;
};

}  // namespace

extern const engine::PolicyEntry eviction_lfu;
constexpr engine::PolicyEntry eviction_lfu{
    "lfu",
    "Least frequently used leaves.\n"
    "Of equals the least recently used. An item that leaves is forgotten: it\n"
    "starts again at one use.",
    &make_eviction<Lfu>};

}  // namespace batchflow::policies
