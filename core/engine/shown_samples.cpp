#include "core/engine/shown_samples.h"

#include <utility>

#include "core/base/check.h"

namespace batchflow::engine {

std::uint64_t ShownSamples::sample_key(std::uint32_t reads, SampleId sample, Form form) {
  static_assert(order::kSamplesMost < std::uint64_t{1} << 40);
  BF_CHECK(reads < 1u << 23 && sample.value < std::uint64_t{1} << 40);
  return std::uint64_t{form == Form::decoded} << 63 | std::uint64_t{reads} << 40 | sample.value;
}

ShownIndex ShownSamples::find(NodeIndex node, DatasetId dataset, SampleId sample, Form form) const {
  const std::uint32_t reads = reads_at_.find(key(node, dataset));
  if (reads == kNone) return ShownIndex::none();
  return ShownIndex(found_.find(sample_key(reads, sample, form)));
}

void ShownSamples::show(OpenRead& read, ReadIndex index) {
  const std::uint64_t here = key(read.node, read.dataset);
  std::uint32_t reads = reads_at_.find(here);
  if (reads == kNone) reads_at_.set(here, reads = reads_.make());
  ++reads_[reads].count;
  for (std::uint32_t at = 0; at < read.samples.size(); ++at) {
    const ShownIndex shown = samples_.make();
    samples_[shown] = {index, at, 0};
    read.shown.push_back(shown);
    found_.set(sample_key(reads, read.samples[at], read.form), shown.value);
  }
}

void ShownSamples::hide(OpenRead& read) {
  if (!std::exchange(read.shared, false)) return;
  const std::uint64_t here = key(read.node, read.dataset);
  const std::uint32_t reads = reads_at_.at(here);
  // Another read of the same sample may have taken its place.
  for (std::size_t at = 0; at < read.samples.size(); ++at) {
    if (read.shown[at].is_none()) continue;
    found_.erase(sample_key(reads, read.samples[at], read.form), read.shown[at].value);
  }
  if (--reads_[reads].count > 0) return;
  reads_at_.erase(here);
  reads_.release(reads);
}

void ShownSamples::release(OpenRead& read, std::span<const ShownIndex> shown) {
  const std::uint32_t reads = read.shared ? reads_at_.at(key(read.node, read.dataset)) : 0;
  for (const ShownIndex one : shown) {
    const std::uint32_t at = samples_[one].index;
    if (read.shared) found_.erase(sample_key(reads, read.samples[at], read.form), one.value);
    read.shown[at] = ShownIndex::none();
    samples_.release(one);
  }
}

void ShownSamples::release(const OpenRead& read) {
  for (const ShownIndex shown : read.shown) {
    if (!shown.is_none()) samples_.release(shown);
  }
}

}  // namespace batchflow::engine
