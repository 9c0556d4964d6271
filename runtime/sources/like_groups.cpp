#include "runtime/sources/like_groups.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>
#include <utility>

namespace batchflow::sources {
namespace {

// A third time changes next to nothing, of lengths as of texts. Groups of many rows are even.
constexpr int kTimes = 2;
constexpr std::uint32_t kRowsMost = 64;

struct Group {
  std::vector<std::uint32_t> items;
  std::uint64_t cost = 0;
};

// The dearest item first, each into the group that costs least by then and has room; of equal ones
// into the first.
std::vector<Group> dealt(std::span<const std::uint64_t> costs, std::uint32_t rows) {
  std::vector<std::uint32_t> items(costs.size());
  std::iota(items.begin(), items.end(), 0);
  std::stable_sort(items.begin(), items.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return costs[a] > costs[b]; });
  std::vector<Group> groups((items.size() + rows - 1) / rows);
  std::set<std::pair<std::uint64_t, std::size_t>> by_cost;
  for (std::size_t i = 0; i < groups.size(); ++i) by_cost.emplace(0, i);
  for (const std::uint32_t item : items) {
    const std::size_t at = by_cost.begin()->second;
    by_cost.erase(by_cost.begin());
    Group& group = groups[at];
    group.items.push_back(item);
    group.cost += costs[item];
    if (group.items.size() < rows) by_cost.emplace(group.cost, at);
  }
  return groups;
}

// Two items change places, the first two of those after which the groups differ least, if they then
// differ less.
void swap_items(std::span<const std::uint64_t> costs, Group& cheap, Group& dear) {
  const auto apart = static_cast<std::int64_t>(dear.cost - cheap.cost);
  std::int64_t least = apart;
  std::uint32_t* from = nullptr;
  std::uint32_t* to = nullptr;
  for (std::uint32_t& one : dear.items) {
    for (std::uint32_t& other : cheap.items) {
      const auto moved = static_cast<std::int64_t>(costs[one] - costs[other]);
      const std::int64_t then = std::abs(apart - 2 * moved);
      if (then >= least) continue;
      least = then;
      from = &one;
      to = &other;
    }
  }
  if (from == nullptr) return;
  const std::uint64_t moved = costs[*from] - costs[*to];
  dear.cost -= moved;
  cheap.cost += moved;
  std::swap(*from, *to);
}

}  // namespace

std::vector<std::vector<std::uint32_t>> groups_of_like_cost(std::span<const std::uint64_t> costs,
                                                            std::uint32_t rows) {
  std::vector<Group> groups = dealt(costs, rows);
  std::vector<std::uint32_t> order(groups.size());
  std::iota(order.begin(), order.end(), 0);
  for (int time = 0; rows <= kRowsMost && time < kTimes; ++time) {
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return groups[a].cost < groups[b].cost;
    });
    for (std::size_t i = 0; i < order.size() / 2; ++i)
      swap_items(costs, groups[order[i]], groups[order[order.size() - 1 - i]]);
  }
  std::vector<std::vector<std::uint32_t>> made;
  for (Group& group : groups) made.push_back(std::move(group.items));
  return made;
}

}  // namespace batchflow::sources
