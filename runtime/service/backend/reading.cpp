#include "runtime/service/backend/reading.h"

namespace batchflow::service {

void Reading::take(const std::optional<FetchedItems>& items) {
  const bool has_classes = from_log && items;
  if (!items || items->sizes.size() != samples.size() ||
      (has_classes && items->classes.size() != samples.size())) {
    for (StagedSample& sample : samples) sample.failed = true;
    return;
  }
  std::size_t at = 0;
  fetched = items->payload.memory;
  for (std::size_t row = 0; row < samples.size(); ++row) {
    StagedSample& sample = samples[row];
    if (items->sizes[row] == FetchedItems::kMissing) {
      // It is not kept as if it were empty, and a log is the only place of a record.
      sample.failed = !keep.is_none() || from_log;
      continue;
    }
    sample.logged = from_log;
    if (from_log) sample.label = items->classes[row];
    sample.memory = fetched.get() + at;  // only read from here on
    sample.bytes = items->sizes[row];
    sample.fetched = true;
    at += sample.bytes;
  }
}

KeptItems Reading::kept_items() const {
  KeptItems items;
  items.dataset = dataset;
  items.share = keep;
  items.on_drive = keep_on_drive;
  items.bundle_shift = bundle_shift;
  each_item([&](SampleId first, std::span<const std::span<const std::byte>> parts) {
    items.samples.push_back(first);
    std::uint64_t& bytes = items.sizes.emplace_back(0);
    for (const std::span<const std::byte> part : parts) {
      items.parts.push_back(part);
      bytes += part.size();
    }
  });
  return items;
}

}  // namespace batchflow::service
