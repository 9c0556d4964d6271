#include "programs/input/recorded_work.h"

#include <algorithm>
#include <cmath>

namespace batchflow::input {
namespace {

constexpr std::size_t kTimesMost = 1'000'000;  // reads, and preparations, that are looked at

}  // namespace

void RecordedWork::began(const engine::Read& read, const engine::Catalogue* catalogue,
                         Instant now) {
  if (read.from.tier != Tier::store || catalogue == nullptr) return;
  TimedWork work{now, now, 0, 0};
  std::uint64_t samples = 0;
  if (read.samples.empty()) {
    samples = read.lineage.samples;
    work.operations = static_cast<double>(samples);
    work.bytes = work.operations * static_cast<double>(catalogue->mean_bytes());
  }
  for (const SampleId sample : read.samples) {
    if (sample.value >= catalogue->samples()) continue;
    work.operations += 1;
    if (read.bundle_shift > 0) {
      const std::uint64_t bundle = sample.value >> read.bundle_shift;
      work.bytes += static_cast<double>(catalogue->bundle_bytes(bundle));
      samples += std::min(std::uint64_t{1} << read.bundle_shift,
                          catalogue->samples() - (bundle << read.bundle_shift));
    } else {
      work.bytes += static_cast<double>(catalogue->bytes(sample));
      ++samples;
    }
  }
  figures_.samples_read += samples;
  figures_.storage_bytes += static_cast<Bytes>(work.bytes);
  reading_[{read.request.id.value, read.request.attempt}] = work;
}

void RecordedWork::began(const engine::Prepare& prepare, Instant now) {
  Preparation one;
  one.work = {now, now, static_cast<double>(prepare.samples()), 0};
  one.pipeline = prepare.lineage.pipeline.value;
  one.node = prepare.node.value;
  for (const engine::Ingredient& ingredient : prepare.ingredients)
    if (ingredient.form == Form::decoded) one.decoded += 1;
  figures_.samples_requested += prepare.samples();
  preparing_[{prepare.request.id.value, prepare.request.attempt}] = one;
}

void RecordedWork::ended(const engine::ReadDone& done, Instant now) {
  const auto found = reading_.find({done.request.id.value, done.request.attempt});
  if (found == reading_.end()) return;
  if (done.outcome == engine::Outcome::done && reads_.size() < kTimesMost) {
    found->second.to = now;
    reads_.push_back(found->second);
  }
  reading_.erase(found);
}

void RecordedWork::ended(const engine::PreparationDone& done, Instant now) {
  const auto found = preparing_.find({done.request.id.value, done.request.attempt});
  if (found == preparing_.end()) return;
  Preparation& one = found->second;
  if (done.outcome != engine::Outcome::failed && preparations_.size() < kTimesMost) {
    one.work.to = now;
    preparations_.push_back(one);
  }
  preparing_.erase(found);
}

// A preparation that is cancelled is still reported.
void RecordedWork::cancelled(const engine::Cancel& cancel) {
  reading_.erase(reading_.lower_bound({cancel.request.id.value, 0}),
                 reading_.upper_bound({cancel.request.id.value, UINT32_MAX}));
}

void RecordedWork::find_core_times(const std::map<std::uint32_t, ObservedNode>& nodes,
                                   bool has_help) {
  std::map<std::uint32_t, std::vector<std::size_t>> by_node;
  for (std::size_t i = 0; i < preparations_.size(); ++i)
    by_node[preparations_[i].node].push_back(i);
  for (const auto& [node, which] : by_node) {
    std::vector<TimedWork> works;
    for (const std::size_t i : which) works.push_back(preparations_[i].work);
    const auto found = nodes.find(node);
    const std::size_t workers = found == nodes.end() ? 1 : found->second.cores;
    const std::vector<double> each = core_seconds(works, workers, has_help);
    for (std::size_t k = 0; k < which.size(); ++k) preparations_[which[k]].core_s = each[k];
  }
}

void RecordedWork::measure(std::uint32_t id, ObservedPipeline& pipeline) const {
  double measured = 0, expected = 0, samples = 0;
  std::vector<double> factors;
  for (const Preparation& one : preparations_) {
    if (one.pipeline != id || one.work.operations <= 0) continue;
    const double encoded = one.work.operations - one.decoded;
    const double usual = pipeline.augment_s * one.work.operations + pipeline.decode_s * encoded;
    measured += one.core_s * one.work.operations;
    expected += usual;
    samples += one.work.operations;
    // One sample's spread, of which a block shows the mean of many.
    if (usual > 0) factors.push_back(one.core_s * one.work.operations / usual);
  }
  if (samples <= 0 || measured <= 0) return;
  pipeline.was_measured = true;
  const double each = samples / static_cast<double>(std::max<std::size_t>(1, factors.size()));
  pipeline.jitter = mean_and_jitter(factors).jitter * std::sqrt(each);
  if (expected > 0) {
    pipeline.decode_s *= measured / expected;
    pipeline.augment_s *= measured / expected;
  } else {
    pipeline.augment_s = measured / samples;
  }
}

}  // namespace batchflow::input
