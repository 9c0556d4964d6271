#include "core/engine/suspects.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/check.h"
#include "core/base/saturating.h"
#include "core/engine/staging.h"
#include "core/order/replacement.h"

namespace batchflow::engine {

bool Suspects::are_of_block(const Making& making, std::span<const SampleId> failed) {
  if (failed.empty()) return false;
  std::vector<SampleId> own;
  if (making.ingredients.empty()) s_.expand(s_.blocks[making.block], draws_);
  if (making.ingredients.empty()) {
    for (const order::Draw& draw : draws_) own.push_back(draw.sample);
  }
  for (const Ingredient& ingredient : making.ingredients) own.push_back(ingredient.sample);
  std::sort(own.begin(), own.end());
  return std::all_of(failed.begin(), failed.end(), [&](SampleId sample) {
    return std::binary_search(own.begin(), own.end(), sample);
  });
}

void Suspects::report(MakingIndex index, std::span<const SampleId> failed) {
  Making& making = s_.makings[index];
  const Block& block = s_.blocks[making.block];
  if (making.ingredients.empty()) {
    // So far the block was one read of all its samples; from here on they have names.
    s_.expand(block, draws_);
    for (std::uint32_t at = 0; at < draws_.size(); ++at) {
      Ingredient ingredient;
      ingredient.index = at;
      ingredient.sample = draws_[at].sample;
      ingredient.staging = making.staging;
      making.ingredients.push_back(ingredient);
    }
  }
  for (const SampleId sample : failed) BF_CHECK(mark_undecodable(index, sample));
}

// A sample may stand at several indices of a block: at its own, and at those of corrupt samples.
bool Suspects::mark_undecodable(MakingIndex index, SampleId sample) {
  Making& making = s_.makings[index];
  // A sample that was read for this block has had its first read of the store; one from a cache has
  // not, also where that is another node's, which may have let the sample go.
  bool from_store = false, from_node = false;
  for (const ReadHold& one : making.held.reads) {
    const OpenRead& read = s_.reads[one.read];
    const bool has_it = std::any_of(read.samples.begin(), read.samples.end(), [&](SampleId other) {
      return item_of(other, read.bundle_shift) == item_of(sample, read.bundle_shift);
    });
    if (has_it && read.source.is_none()) from_store = true;
    if (has_it && !read.source.is_none()) from_node = true;
  }
  bool found = false;
  for (Ingredient& ingredient : making.ingredients) {
    if (ingredient.sample != sample) continue;
    found = true;
    const bool with_block = !from_node && !ingredient.staging.is_none();  // one read of all of it
    mark_undecodable(making, ingredient, from_store || with_block);
    if (!ingredient.keep_decoded) continue;
    ingredient.keep_decoded = false;
    items_.give_up_decoding(index, sample);
  }
  if (found)
    item_shares_.purge(datasets_[s_.streams[s_.blocks[making.block].stream].dataset].id, sample);
  return found;
}

void Suspects::mark_undecodable(Making& making, const Ingredient& ingredient, bool from_store) {
  auto known = std::find_if(making.suspects.begin(), making.suspects.end(),
                            [&](const auto& one) { return one.index == ingredient.index; });
  if (known == making.suspects.end()) {
    making.suspects.push_back(
        {ingredient.index, ingredient.sample, ingredient.sample, 0, true, ingredient.occurrence});
    known = std::prev(making.suspects.end());
  }
  // A worker names a sample for each of its indices: that is one read of it.
  if (!std::exchange(known->settled, false)) return;
  if (from_store) ++known->failures;
}

std::optional<StreamFailure> Suspects::replace_corrupt(Making& making) {
  for (Making::Suspect& suspect : making.suspects) {
    if (suspect.settled || suspect.failures < 2) continue;
    if (s_.streams[s_.blocks[making.block].stream].keyed) {
      suspect.settled = true;  // its worker has marked it, and no other was asked for
      continue;
    }
    if (auto failure = declare_corrupt(making, suspect)) return failure;
  }
  return std::nullopt;
}

namespace {

// The source of the stream's mixture that has the sample; null: none has.
const SampleRange* source_of(const Stream& stream, SampleId sample) {
  const auto next =
      std::upper_bound(stream.mixed_sources.begin(), stream.mixed_sources.end(), sample,
                       [](SampleId at, const SampleRange& source) { return at < source.first; });
  if (next == stream.mixed_sources.begin()) return nullptr;
  const SampleRange& source = *std::prev(next);
  return sample.value < source.first.value + source.samples ? &source : nullptr;
}

// The samples among which a corrupt one counts: those of its source, or of the dataset.
SampleRange counted_with(const Stream& stream, const Dataset& dataset, SampleId sample) {
  if (const SampleRange* const source = source_of(stream, sample)) return *source;
  return {SampleId(0), dataset.source ? dataset.source->end : dataset.catalogue->samples()};
}

// The first good sample for a visit of a corrupt one. In a mixture it is of the same source, but
// exemplars may be of no source. In a source that grows it is one of the records that are there.
template <class IsCorrupt>
std::optional<SampleId> replacement(const EngineState& s, const Block& block, SampleId corrupt,
                                    std::uint32_t occurrence, IsCorrupt is_corrupt) {
  const Stream& stream = s.streams[block.stream];
  const Catalogue& catalogue = *s.datasets[stream.dataset].catalogue;
  const order::KeyRoot root{catalogue.version(), stream.seed};
  if (const auto& source = s.datasets[stream.dataset].source) {
    return order::replacement(root, 0, occurrence, corrupt,
                              {SampleId(source->first), source->end - source->first}, is_corrupt);
  }
  if (stream.family != Order::mixed || block.rehearsal)
    return order::replacement(root, block.name.generation, block.name.pass, corrupt,
                              {SampleId(0), catalogue.samples()}, is_corrupt);
  const SampleRange* const source = source_of(stream, corrupt);
  BF_CHECK(source != nullptr);
  return order::replacement(root, 0, occurrence, corrupt, *source, is_corrupt);
}

}  // namespace

std::optional<StreamFailure> Suspects::declare_corrupt(const Making& making,
                                                       Making::Suspect& suspect) {
  const Block& block = s_.blocks[making.block];
  const Stream& stream = s_.streams[block.stream];
  Dataset& dataset = datasets_[stream.dataset];
  std::vector<SampleId>& corrupt = dataset.corrupt[stream.pipeline_id.value];
  const auto at = std::lower_bound(corrupt.begin(), corrupt.end(), suspect.used);
  if (at == corrupt.end() || *at != suspect.used) {
    corrupt.insert(at, suspect.used);
    ++s_.counters.corrupt_samples;
  }
  const SampleRange counted = counted_with(stream, dataset, suspect.used);
  const std::uint64_t found = order::samples_in(corrupt, counted);
  const std::uint64_t most =
      std::max(order::kCorruptLeast, s_.config.corrupt_ratio_max.share_of(counted.samples));
  const auto other = replacement(
      s_, block, suspect.original, suspect.occurrence,
      [&](SampleId sample) { return std::binary_search(corrupt.begin(), corrupt.end(), sample); });
  if (found > most || !other) {
    return StreamFailure{block.stream, Refusal::too_many_corrupt, found, most};
  }
  suspect.used = *other;
  suspect.failures = 0;
  return std::nullopt;
}

bool Suspects::has_doubts(const Making& making) {
  return std::any_of(making.suspects.begin(), making.suspects.end(),
                     [](const Making::Suspect& one) { return !one.settled; });
}

void Suspects::look_again(MakingIndex index, Bytes most) {
  Making& making = s_.makings[index];
  const Block& block = s_.blocks[making.block];
  const Dataset& dataset = datasets_[s_.streams[block.stream].dataset];
  ids_.clear();
  Bytes taken = 0;
  for (Making::Suspect& suspect : making.suspects) {
    if (suspect.settled) continue;
    if (std::find(ids_.begin(), ids_.end(), suspect.used) == ids_.end()) {
      const Bytes bytes = staged_bytes(s_, dataset, suspect.used);
      if (!ids_.empty() && saturating_sum(taken, bytes) > most) continue;
      taken += bytes;
      ids_.push_back(suspect.used);
    }
    suspect.settled = true;  // until the worker says otherwise
    Ingredient ingredient;
    ingredient.index = suspect.index;
    ingredient.sample = suspect.used;
    ingredient.occurrence = suspect.occurrence;
    making.ingredients.push_back(ingredient);
  }
  Reads::Spec spec;
  spec.dataset = dataset.id;
  spec.from = {NodeId::none(), Tier::store, 0};
  spec.to = {block.node, Tier::dram, 0};
  spec.node = making.node;
  spec.alone = true;
  spec.lineage = s_.lineage(block);
  const ReadIndex read = reads_.open(spec, ids_);
  reads_.own(read, index);
  for (Ingredient& ingredient : making.ingredients) {
    ingredient.staging = s_.reads[read].request.id;
  }
}

void Suspects::stand_in(const EngineState& s, Making& making, Ingredient& ingredient) {
  const Block& block = s.blocks[making.block];
  const Stream& stream = s.streams[block.stream];
  if (stream.keyed) return;
  const Dataset& dataset = s.datasets[stream.dataset];
  const std::vector<SampleId>& known = dataset.corrupt_by(stream.pipeline_id);
  const auto corrupt = [&known](SampleId sample) {
    return std::binary_search(known.begin(), known.end(), sample);
  };
  if (!corrupt(ingredient.sample)) return;
  const auto used = replacement(s, block, ingredient.sample, ingredient.occurrence, corrupt);
  making.suspects.push_back({ingredient.index, ingredient.sample, used.value_or(ingredient.sample),
                             0, true, ingredient.occurrence});
  ingredient.sample = making.suspects.back().used;
}

void Suspects::forget_stand_in(Making& making, std::uint32_t at) {
  if (!making.suspects.empty() && making.suspects.back().index == at) making.suspects.pop_back();
}

}  // namespace batchflow::engine
