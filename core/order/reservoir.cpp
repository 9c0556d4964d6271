#include "core/order/reservoir.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/random.h"

namespace batchflow::order {

Reservoir::Reservoir(Digest dataset_version, const ReservoirName& name)
    : Reservoir(dataset_version, name, name.first, {}) {}

Reservoir::Reservoir(Digest dataset_version, const ReservoirName& name, std::uint64_t next,
                     std::vector<std::uint32_t> records)
    : dataset_version_(dataset_version), name_(name), next_(next), records_(std::move(records)) {
  BF_CHECK(name.most > 0 && next >= name.first);
  BF_CHECK(records_.size() == std::min<std::uint64_t>(name.most, next - name.first));
}

bool Reservoir::show(std::uint64_t next, std::uint64_t most) {
  const std::uint64_t end = next - std::min(next, next_) > most ? next_ + most : next;
  for (; next_ < end; ++next_) {
    const auto record = static_cast<std::uint32_t>(next_);
    const std::uint64_t shown = next_ - name_.first;
    if (shown < name_.most) {
      records_.push_back(record);
      continue;
    }
    Random random(reservoir_key({dataset_version_, name_.seed}, next_));
    const std::uint64_t slot = random.below(shown + 1);
    if (slot < name_.most) records_[slot] = record;
  }
  return next_ >= next;
}

}  // namespace batchflow::order
