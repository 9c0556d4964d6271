// Samples whose bytes cannot be decoded: looked at again, then replaced (order rules, section 6).
#include <algorithm>

#include "core/check.h"
#include "core/engine/preparation.h"
#include "core/replacement.h"

namespace batchflow {

// The worker could not decode some samples. Each is read anew from the store and tried again alone;
// a sample that fails on two reads of its own is corrupt, and the rule names who stands in.
// A report of samples that are not in the block is a broken worker, not a broken sample.
bool Preparation::are_of_block(const Making& making, std::span<const SampleId> failed) {
  if (failed.empty()) return false;
  std::vector<SampleId> own;
  if (making.ingredients.empty()) s_.expand(s_.blocks[making.block], draws_);
  if (making.ingredients.empty()) {
    for (const Draw& draw : draws_) own.push_back(draw.sample);
  }
  for (const Ingredient& ingredient : making.ingredients) own.push_back(ingredient.sample);
  std::sort(own.begin(), own.end());
  return std::all_of(failed.begin(), failed.end(), [&](SampleId sample) {
    return std::binary_search(own.begin(), own.end(), sample);
  });
}

void Preparation::corrupt(std::uint32_t index, std::span<const SampleId> failed) {
  Making& making = s_.makings[index];
  const Block& block = s_.blocks[making.block];
  if (making.ingredients.empty()) {
    // So far the block was one read of all its samples; from here on they have names.
    s_.expand(block, draws_);
    for (std::uint32_t place = 0; place < draws_.size(); ++place) {
      Ingredient ingredient;
      ingredient.place = place;
      ingredient.sample = draws_[place].sample;
      ingredient.staging = making.staging;
      making.ingredients.push_back(ingredient);
    }
    making.staging = RequestId::none();
  }
  for (const SampleId sample : failed) BF_CHECK(suspect(index, sample));
  for (Making::Suspect& suspect : making.suspects) {
    if (suspect.settled || suspect.failures < 2) continue;
    if (condemn(making, suspect)) continue;
    free_worker(making);
    return abort(index);
  }
  look_again(index);
}

// A sample may stand in several places of a block: in its own, and in those of corrupt ones.
bool Preparation::suspect(std::uint32_t index, SampleId sample) {
  Making& making = s_.makings[index];
  // What was read for this block counts as a first read of the store; what a cache had does not.
  const bool read = std::any_of(making.reads.begin(), making.reads.end(), [&](std::uint32_t one) {
    const auto& samples = s_.reads[one].samples;
    return std::find(samples.begin(), samples.end(), sample) != samples.end();
  });
  bool found = false;
  for (Ingredient& ingredient : making.ingredients) {
    if (ingredient.sample != sample) continue;
    found = true;
    suspect(making, ingredient, read || !ingredient.staging.is_none());
    if (!ingredient.keep_decoded) continue;
    ingredient.keep_decoded = false;
    items_.give_up_decoding(index, sample);
  }
  if (found)
    items_.purge(s_.datasets[s_.streams[s_.blocks[making.block].stream].dataset].id, sample);
  return found;
}

void Preparation::suspect(Making& making, const Ingredient& ingredient, bool from_store) {
  auto known = std::find_if(making.suspects.begin(), making.suspects.end(),
                            [&](const auto& one) { return one.place == ingredient.place; });
  if (known == making.suspects.end()) {
    making.suspects.push_back({ingredient.place, ingredient.sample, ingredient.sample, 0, false});
    known = std::prev(making.suspects.end());
  }
  known->settled = false;
  if (from_store) ++known->failures;
}

// False: too many samples are corrupt to this pipeline, and its jobs end.
bool Preparation::condemn(Making& making, Making::Suspect& suspect) {
  const Block& block = s_.blocks[making.block];
  const Stream& stream = s_.streams[block.stream];
  Dataset& dataset = s_.datasets[stream.dataset];
  std::vector<SampleId>& corrupt = dataset.corrupt[stream.pipeline_id.value];
  const auto at = std::lower_bound(corrupt.begin(), corrupt.end(), suspect.used);
  if (at == corrupt.end() || *at != suspect.used) {
    corrupt.insert(at, suspect.used);
    ++s_.counters.corrupt_samples;
  }
  const std::uint64_t samples = dataset.catalogue->samples();
  const std::uint64_t most = std::max<std::uint64_t>(8, s_.config.corrupt_ratio_max.of(samples));
  const auto other = replacement(
      {dataset.catalogue->version(), stream.seed}, block.name.generation, block.name.pass,
      suspect.original, samples,
      [&](SampleId sample) { return std::binary_search(corrupt.begin(), corrupt.end(), sample); });
  if (corrupt.size() > most || !other) {
    failures.push_back({block.stream, kNone, Refusal::too_many_corrupt, corrupt.size(), most});
    return false;
  }
  suspect.used = *other;
  suspect.failures = 0;
  return true;
}

// Reads the suspects from the store, each for this block alone, and prepares their places again.
void Preparation::look_again(std::uint32_t index) {
  Making& making = s_.makings[index];
  const Block& block = s_.blocks[making.block];
  ids_.clear();
  making.patch.clear();
  std::vector<const Making::Suspect*> again;
  for (Making::Suspect& suspect : making.suspects) {
    if (suspect.settled) continue;
    suspect.settled = true;  // until the worker says otherwise
    again.push_back(&suspect);
    if (std::find(ids_.begin(), ids_.end(), suspect.used) == ids_.end()) {
      ids_.push_back(suspect.used);
    }
  }
  Reads::Spec spec;
  spec.dataset = s_.datasets[s_.streams[block.stream].dataset].id;
  spec.from = {NodeId::none(), Tier::store, 0};
  spec.to = {block.node, Tier::dram, 0};
  spec.node = making.node;
  spec.alone = true;
  spec.lineage = s_.lineage(block);
  const std::uint32_t read = reads_.open(spec, ids_);
  reads_.use(read, index);
  for (const Making::Suspect* suspect : again) {
    Ingredient& ingredient = making.ingredients[suspect->place];
    ingredient.sample = suspect->used;
    ingredient.form = Form::encoded;
    ingredient.staging = s_.reads[read].request.id;
    making.patch.push_back(ingredient);
  }
}

}  // namespace batchflow
