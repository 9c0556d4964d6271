// Samples of a listed order: they are delivered as they are stored, from the cache of the rank's
// own node.
#include "core/engine/books.h"
#include "core/engine/items.h"

namespace batchflow::engine {

void Items::want_listed(std::uint32_t batch_index, std::uint32_t node, DatasetId dataset,
                        SampleId sample, Bytes bytes, std::uint64_t next_use) {
  Batch& batch = s_.batches[batch_index];
  Ingredient ingredient;
  ingredient.place = static_cast<std::uint32_t>(batch.ingredients.size());
  ingredient.sample = sample;
  batch.ingredients.push_back(ingredient);
  const ItemCache* encoded = cache(node, dataset, 0);
  const std::uint32_t index = encoded ? encoded->dram : kNone;
  const ItemId item = item_of(sample);
  std::uint32_t keep = kNone;
  const Slots slots = index == kNone ? 0 : slots_for(bytes, s_.memory[index].spec.slot_bytes);
  if (index != kNone && s_.memory[index].share->capacity() > 0 && slots <= kItemSlotsMost) {
    Share& share = *s_.memory[index].share;
    gone_.clear();
    const Share::Result result = share.access({item, slots, next_use}, gone_);
    for (const ItemId gone : gone_) s_.evicted.push_back({index, gone});
    gone_.clear();
    const Reads::Bringer bringer = reads_.bringer(index, item);
    if (result != Share::Result::bypassed && !bringer.in_vain) {
      share.pin(item);
      batch.pins.push_back({index, item});
    }
    if (result == Share::Result::hit && !bringer.in_vain) {
      if (bringer.read != kNone) reads_.wait_for_listed(bringer.read, batch_index);
      return;
    }
    if (result == Share::Result::inserted) {
      keep = index;
      share.pin(item);  // for the read that will bring it
    }
  }
  // An item that was let in just now is read for the share.
  if (keep == kNone && use_listed_under_way(batch_index, node, dataset, sample)) return;
  add_to_group({kNone, keep}, sample, ingredient.place);
}

// It is staged, or on its way, for another batch. What is staged for a block is in memory of that
// block.
bool Items::use_listed_under_way(std::uint32_t batch_index, std::uint32_t node, DatasetId dataset,
                                 SampleId sample) {
  const std::uint32_t shown = reads_.find(node, dataset, sample, Form::encoded);
  if (shown == kNone) return false;
  Batch& batch = s_.batches[batch_index];
  const std::uint32_t index = reads_.shown(shown).read;
  const ReadJob& read = s_.reads[index];
  if (!read.staged) {
    reads_.wait_for_listed(index, batch_index);
    s_.memory[read.keep].share->pin(item_of(sample));
    batch.pins.push_back({read.keep, item_of(sample)});
    return true;
  }
  if (!read.listed) return false;
  reads_.hold_listed(shown, batch_index);
  batch.ingredients.back().staging = read.request.id;
  return true;
}

// A sample that stands in a batch twice is read once.
void Items::order_listed(std::uint32_t batch_index, std::uint32_t node, DatasetId dataset) {
  drop_evicted(s_);
  for (const Group& group : groups_.all()) {
    once_.clear();
    first_places_.clear(group.samples.size());
    for (std::uint32_t at = 0; at < group.samples.size(); ++at) {
      if (first_places_.of(group.samples[at], at) == at) once_.push_back(group.samples[at]);
    }
    Reads::Spec spec = spec_of(group.source, dataset, node);
    spec.listed = true;
    const std::uint32_t read = reads_.open(spec, once_);
    reads_.own_listed(read, batch_index);
    for (const std::uint32_t place : group.ingredients) {
      if (s_.reads[read].staged) {
        s_.batches[batch_index].ingredients[place].staging = s_.reads[read].request.id;
      }
    }
  }
  groups_.clear();
}

}  // namespace batchflow::engine
