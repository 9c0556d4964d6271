#include "core/engine/runs.h"

#include <algorithm>

#include "core/base/check.h"

namespace batchflow::engine {

std::uint64_t Sequence::add(Grant&& grant) {
  grants.push_back(std::move(grant));
  return forgotten_ + grants.size() - 1;
}

const Cut& Sequence::cut(std::uint64_t number, std::uint64_t most) {
  Grant& given = grant(number);
  Cut cut;
  cut.start = end();
  cut.count = static_cast<std::uint32_t>(std::min<std::uint64_t>(given.to - given.from, most));
  cut.from = given.from;
  cut.grant = number;
  BF_CHECK(cut.count > 0);
  given.from += cut.count;
  ++given.cuts;
  granted += cut.count;
  cuts_.push_back(cut);
  return cuts_.back();
}

const Cut& Sequence::cut_at(std::uint64_t index) const {
  // Mostly it is one of the last cuts, or of those that are committed next.
  BF_CHECK(!cuts_.empty() && index < end());
  if (index >= cuts_.back().start) return cuts_.back();
  if (const Cut& first = cuts_.front(); index >= first.start && index < first.start + first.count) {
    return first;
  }
  const auto after =
      std::upper_bound(cuts_.begin(), cuts_.end(), index,
                       [](std::uint64_t value, const Cut& cut) { return value < cut.start; });
  BF_CHECK(after != cuts_.begin());
  const Cut& cut = *std::prev(after);
  BF_CHECK(index < cut.start + cut.count);
  return cut;
}

}  // namespace batchflow::engine
