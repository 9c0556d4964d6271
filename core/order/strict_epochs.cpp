#include "core/order/strict_epochs.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace batchflow::order {

void StrictEpochs::expect(Coming& coming, Coming now) {
  const Coming old = std::exchange(coming, now);
  const auto replace = [&](std::vector<std::uint64_t>& sorted, std::uint64_t Coming::*bound) {
    if (old.before != 0) sorted.erase(std::lower_bound(sorted.begin(), sorted.end(), old.*bound));
    if (now.before != 0)
      sorted.insert(std::lower_bound(sorted.begin(), sorted.end(), now.*bound), now.*bound);
  };
  replace(after_, &Coming::after);
  replace(before_, &Coming::before);
  if (old.before == 0 || now.before == 0) {
    const Coming& one = old.before == 0 ? now : old;
    changed_.numbers_changed(one.after + 1, one.before);
  } else {  // those that only one of the two has
    changed_.numbers_changed(
        std::min(old.after, now.after) + 1,
        std::min({std::max(old.after, now.after) + 1, old.before, now.before}));
  }
}

std::uint32_t StrictEpochs::count_to_come(const Generation& generation) const {
  const std::uint64_t number = generation.number;
  if (generations_.strict_sizes(number) != generation.sizes) return 0;
  const auto come_after = std::lower_bound(after_.begin(), after_.end(), number);
  const auto come_before = std::upper_bound(before_.begin(), before_.end(), number);
  return static_cast<std::uint32_t>((come_after - after_.begin()) -
                                    (come_before - before_.begin()));
}

void StrictEpochs::has_begun(std::uint64_t number) {
  const auto found = beginning_.find(number);
  if (--found->second == 0) beginning_.erase(found);
}

void StrictEpochs::check(const Generation& generation, const LaneMemberTable& members) const {
  const bool is_theirs = generations_.strict_sizes(generation.number) == generation.sizes;
  std::uint32_t count = 0;
  for (std::uint32_t slot = 0; slot < members.size(); ++slot) {
    const LaneMember& member = members[slot];
    const LaneRun& run = member.newest_run();
    if (!member.used || !member.strict || !run.entered) continue;
    if (generations_[run.generation].number < generation.number && generation.number < member.end)
      ++count;
  }
  BF_CHECK(to_come(generation) == (is_theirs ? count : 0));
}

}  // namespace batchflow::order
