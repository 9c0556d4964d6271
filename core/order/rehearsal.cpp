#include "core/order/rehearsal.h"

#include <algorithm>
#include <numeric>

#include "core/base/check.h"
#include "core/base/random.h"

namespace batchflow::order {

namespace {

constexpr std::uint32_t kLaneBlocks = 4096;
constexpr std::uint64_t kBlocks = std::uint64_t{1} << 41;  // more than a position can have had

}  // namespace

// --------------------------------------------------------------------------------- the plan ----

RehearsalPlan RehearsalPlan::split(StepPlan whole, std::uint32_t rehearsed, std::uint64_t drawn) {
  BF_CHECK(rehearsed < whole.batch_samples);
  whole.batch_samples -= rehearsed;
  return {whole, rehearsed, drawn};
}

IndexRange RehearsalPlan::buffer_draws(std::uint64_t t) const {
  const std::uint64_t step = std::uint64_t{plain.ranks} * rehearsed;
  return {drawn + t * step, drawn + (t + 1) * step};
}

IndexRange RehearsalPlan::buffer_draws(std::uint64_t t, std::uint32_t rank) const {
  BF_CHECK(t < steps() && rank < plain.ranks);
  const std::uint64_t first = buffer_draws(t).from + std::uint64_t{rank} * rehearsed;
  return {first, first + rehearsed};
}

// ------------------------------------------------------------------------------- the buffer ----

bool ExemplarBuffer::report(bool anew, std::uint32_t first, std::span<const SampleId> samples,
                            bool more) {
  const std::size_t size = anew ? 0 : reported_.size();
  if (first > size ||
      samples.size() > kExemplarsMost - std::min<std::size_t>(first, kExemplarsMost)) {
    return false;
  }
  if (more && is_whole_) keep_whole();
  if (anew) reported_.clear();
  reported_.resize(std::max(reported_.size(), first + samples.size()));
  std::copy(samples.begin(), samples.end(), reported_.begin() + first);
  is_whole_ = !more;
  is_kept_ = false;
  return true;
}

std::shared_ptr<const Exemplars> ExemplarBuffer::whole() {
  if (is_whole_) keep_whole();
  return whole_;
}

void ExemplarBuffer::keep_whole() {
  if (is_kept_) return;
  is_kept_ = true;
  whole_ = reported_.empty() ? nullptr : Exemplars::make(reported_);
}

std::shared_ptr<const Exemplars> Exemplars::make(std::vector<SampleId> samples,
                                                 std::vector<std::uint32_t> weights) {
  BF_CHECK(weights.empty() || weights.size() == samples.size());
  Exemplars all;
  Digest digest = samples.size();
  for (const SampleId sample : samples) digest = hash(digest, sample.value);
  std::uint64_t sum = 0;
  for (const std::uint32_t weight : weights) all.ends.push_back(sum += weight);
  if (sum == 0) {
    weights.clear();
    all.ends.clear();
  }
  for (const std::uint32_t weight : weights) digest = hash(digest, weight);
  all.samples = std::move(samples);
  all.sorted.resize(all.samples.size());
  std::iota(all.sorted.begin(), all.sorted.end(), 0);
  std::ranges::sort(all.sorted, {}, [&](std::uint32_t index) { return all.samples[index]; });
  all.weights = std::move(weights);
  all.digest = digest | 1;
  return std::make_shared<const Exemplars>(std::move(all));
}

// -------------------------------------------------------------------------------- the draws ----

Rehearsal::Rehearsal(std::shared_ptr<const Exemplars> exemplars, KeyRoot root, std::uint32_t epoch)
    : exemplars_(std::move(exemplars)), root_(root), epoch_(epoch) {
  BF_CHECK(exemplars_ && !exemplars_->samples.empty());
}

double Rehearsal::draws_for(SampleId sample) const {
  const Exemplars& all = *exemplars_;
  const auto found = std::ranges::equal_range(
      all.sorted, sample, {}, [&](std::uint32_t index) { return all.samples[index]; });
  if (found.empty()) return 0;
  if (all.weights.empty())
    return static_cast<double>(all.samples.size()) / static_cast<double>(found.size());
  std::uint64_t weight = 0;
  for (const std::uint32_t index : found) weight += all.weights[index];
  return weight == 0 ? 0 : static_cast<double>(all.ends.back()) / static_cast<double>(weight);
}

LaneSizes Rehearsal::sizes(std::uint32_t block_samples) {
  return {kBlocks * block_samples, block_samples, kLaneBlocks};
}

BlockName Rehearsal::block_of(std::uint64_t draw, std::uint32_t block_samples) const {
  const std::uint64_t block = draw / block_samples;
  return {generation(), static_cast<std::uint32_t>(block / kLaneBlocks), 0,
          static_cast<std::uint32_t>(block % kLaneBlocks)};
}

void Rehearsal::fill(std::uint64_t first, std::span<Draw> out,
                     PermutationCache& permutations) const {
  using Wide = unsigned __int128;
  const std::uint64_t size = exemplars_->samples.size();
  const std::vector<std::uint64_t>& ends = exemplars_->ends;
  std::uint64_t draw = first;
  for (std::size_t i = 0; i < out.size();) {
    const std::uint64_t pass = draw / size;
    const Permutation& order = permutations.get(rehearsal_key(root_, epoch_, buffer(), pass), size);
    const std::uint64_t total = ends.empty() ? 0 : ends.back();
    const std::uint64_t start =
        total == 0 ? 0 : Random(rehearsal_start_key(root_, epoch_, buffer(), pass)).below(total);
    for (; i < out.size() && draw < (pass + 1) * size; ++i, ++draw) {
      std::uint64_t index = order(draw % size);
      if (total > 0) {
        const auto point = static_cast<std::uint64_t>((Wide{index} * total + start) / size);
        index = static_cast<std::uint64_t>(std::upper_bound(ends.begin(), ends.end(), point) -
                                           ends.begin());
      }
      out[i] = {exemplars_->samples[index], draw};
    }
  }
}

}  // namespace batchflow::order
