#include "core/engine/listed.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/engine/books.h"

namespace batchflow::engine {

void Listed::wanted(Job& job, const SamplesWanted& event) {
  const bool lists_agree =
      (event.next_uses.empty() || event.next_uses.size() == event.samples.size()) &&
      (event.sizes.empty() || event.sizes.size() == event.samples.size());
  if (job.order != Order::listed || job.state != Job::State::running ||
      event.rank >= job.ranks.size() || event.samples.empty() || !lists_agree) {
    return s_.protocol_error();
  }
  const Catalogue& catalogue = *s_.datasets[job.dataset].catalogue;
  RankState& rank = job.ranks[event.rank];
  // The staging memory set apart for the job is for this many samples of the catalogue's sizes.
  const auto largest = s_.config.count_staging ? catalogue.largest_bytes() : UINT64_MAX;
  const bool fits = (!s_.config.count_staging || event.samples.size() <= job.batch_samples) &&
                    std::all_of(event.sizes.begin(), event.sizes.end(),
                                [&](Bytes one) { return one <= largest; });
  const bool known =
      fits && std::all_of(event.samples.begin(), event.samples.end(),
                          [&](SampleId sample) { return sample.value < catalogue.samples(); });
  if (!known || rank.batches.size() >= job.credits) return s_.protocol_error();

  const BatchIndex index = batches_.make();
  Batch& batch = batches_[index];
  batch.job = job.index;
  batch.rank = event.rank;
  batch.step = rank.next_step++;
  batch.node = rank.node;
  batch.samples = static_cast<std::uint32_t>(event.samples.size());
  rank.batches.push_back(index);
  rank.stall.wanted(s_.now, 1);
  const NodeIndex node = s_.node_of.at(rank.node);
  for (std::size_t i = 0; i < event.samples.size(); ++i) {
    const SampleId sample = event.samples[i];
    want(index, node, s_.datasets[job.dataset].id, sample,
         event.sizes.empty() ? catalogue.bytes(sample) : event.sizes[i],
         event.next_uses.empty() ? kUnknownUse : event.next_uses[i]);
  }
  send_reads(index, node, s_.datasets[job.dataset].id);
  if (batch.waiting_reads == 0) ready(index);
}

void Listed::ready(BatchIndex index) {
  Batch& batch = batches_[index];
  const Job& job = s_.jobs[batch.job];
  Deliver command;
  command.request = s_.requests.open(RequestKind::deliver, index.value);
  command.job = job.id;
  command.rank = batch.rank;
  command.step = batch.step;
  command.place = {batch.node, Tier::dram, 0};
  command.ingredients = s_.arena.copy(batch.ingredients);
  batch.request = command.request.id;
  batch.state = Batch::State::delivering;
  s_.emit(command);
  ++s_.counters.batches;
  s_.counters.samples += batch.samples;
}

// The batch's job is refused before the step ends. The items that were to be read leave their
// share, and the batch's pins go with them.
void Listed::failed(BatchIndex index, std::optional<Refusal> why) {
  Batch& batch = batches_[index];
  for (const ItemPin& pin : batch.pins) s_.memory[pin.share].share->unpin(pin.item);
  batch.pins.clear();
  failed_.push_back({s_.jobs[batch.job].id, why.value_or(Refusal::storage_failed)});
}

void Listed::refuse_failed(const std::function<void(Job&, Refusal)>& refuse) {
  for (const Failed& failed : failed_) {
    const JobIndex job = s_.job_of.find(failed.job);
    if (!job.is_none()) refuse(s_.jobs[job], failed.why);
  }
  failed_.clear();
}

// ---------------------------------------------------------------------- where samples are ----

void Listed::want(BatchIndex batch_index, NodeIndex node, DatasetId dataset, SampleId sample,
                  Bytes bytes, std::uint64_t next_use) {
  Batch& batch = batches_[batch_index];
  Ingredient ingredient;
  ingredient.index = static_cast<std::uint32_t>(batch.ingredients.size());
  ingredient.sample = sample;
  batch.ingredients.push_back(ingredient);
  const ItemCache* encoded = item_shares_.cache(node, dataset, 0);
  const ShareId index = encoded ? encoded->dram : ShareId::none();
  ShareId keep = ShareId::none();
  const Slots slots = index.is_none() ? 0 : slots_for(bytes, s_.memory[index].spec.slot_bytes);
  // A list reads no bundles.
  if (!index.is_none() && s_.memory[index].share->capacity() > 0 && slots <= kItemSlotsMost &&
      s_.memory[index].spec.bundle_shift == 0) {
    const ItemId item = s_.memory[index].spec.item_of(sample);
    Share& share = *s_.memory[index].share;
    gone_.clear();
    const Share::Result result = share.access({item, slots, next_use}, gone_);
    for (const ItemId gone : gone_) s_.evicted.push_back({index, gone});
    gone_.clear();
    const Reads::Provider provider = reads_.provider(index, item);
    if (result != Share::Result::bypassed && !provider.in_vain) {
      share.pin(item);
      batch.pins.push_back({index, item});
    }
    if (result == Share::Result::hit && !provider.in_vain) {
      if (!provider.read.is_none()) reads_.wait_for_listed(provider.read, batch_index);
      return;
    }
    if (result == Share::Result::inserted) {
      keep = index;
      share.pin(item);  // for the read that will bring it
    }
  }
  // An item that was let in just now is read for the share.
  if (keep.is_none() && use_under_way(batch_index, node, dataset, sample)) return;
  groups_.add({ShareId::none(), keep}, sample, ingredient.index);
}

// It is staged, or on its way, for another batch. What is staged for a block is in memory of that
// block.
bool Listed::use_under_way(BatchIndex batch_index, NodeIndex node, DatasetId dataset,
                           SampleId sample) {
  const ShownIndex shown = reads_.shown().find(node, dataset, sample, Form::encoded);
  if (shown.is_none()) return false;
  Batch& batch = batches_[batch_index];
  const ReadIndex index = reads_.shown()[shown].read;
  const OpenRead& read = s_.reads[index];
  if (!read.staged) {
    reads_.wait_for_listed(index, batch_index);
    s_.memory[read.keep].share->pin(item_of(sample, read.bundle_shift));
    batch.pins.push_back({read.keep, item_of(sample, read.bundle_shift)});
    return true;
  }
  if (!read.listed) return false;
  reads_.hold_listed(shown, batch_index);
  batch.ingredients.back().staging = read.request.id;
  return true;
}

// A sample that stands in a batch twice is read once.
void Listed::send_reads(BatchIndex batch_index, NodeIndex node, DatasetId dataset) {
  drop_evicted(s_);
  for (const ReadGroups::Group& group : groups_.all()) {
    once_.clear();
    first_indices_.clear(group.samples.size());
    for (std::uint32_t at = 0; at < group.samples.size(); ++at) {
      if (first_indices_.first_index(group.samples[at], at) == at)
        once_.push_back(group.samples[at]);
    }
    Reads::Spec spec = read_spec(s_, group.source, dataset, node);
    spec.listed = true;
    const ReadIndex read = reads_.open(spec, once_);
    reads_.own_listed(read, batch_index);
    for (const std::uint32_t at : group.ingredients) {
      if (s_.reads[read].staged) {
        batches_[batch_index].ingredients[at].staging = s_.reads[read].request.id;
      }
    }
  }
  groups_.clear();
}

}  // namespace batchflow::engine
