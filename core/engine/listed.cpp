#include "core/engine/listed.h"

#include <algorithm>
#include <utility>

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
  for (std::uint32_t i = 0; i < batch.samples; ++i) {
    const SampleId sample = event.samples[i];
    Ingredient& ingredient = batch.ingredients.emplace_back();
    ingredient.index = i;
    ingredient.sample = sample;
    batch.asked.push_back({event.sizes.empty() ? catalogue.bytes(sample) : event.sizes[i],
                           event.next_uses.empty() ? kUnknownUse : event.next_uses[i]});
    batch.missing.push_back(i);
  }
  look_up(index, false);
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

// The batch's job is refused before the step ends, or its samples are looked up again. Items that
// were to be read leave their share, and the batch's pins go with them.
void Listed::failed(BatchIndex index, ReadIndex read_index, std::optional<Refusal> why) {
  Batch& batch = batches_[index];
  if (why) {
    for (const ItemPin& pin : batch.pins) s_.memory[pin.share].share->unpin(pin.item);
    batch.pins.clear();
    failed_.push_back({s_.jobs[batch.job].id, *why});
    return;
  }
  const OpenRead& read = s_.reads[read_index];
  once_ = read.samples;
  std::sort(once_.begin(), once_.end());
  const auto is_read = [&](SampleId sample) {
    return std::binary_search(once_.begin(), once_.end(), sample);
  };
  const bool kept_here = !read.keep.is_none() && s_.memory[read.keep].spec.place.node == batch.node;
  for (const Ingredient& one : batch.ingredients) {
    const bool staged = one.staging == read.request.id;
    if (staged || (one.staging.is_none() && kept_here && is_read(one.sample)))
      batch.missing.push_back(one.index);
  }
  if (kept_here) {
    std::erase_if(batch.pins, [&](const ItemPin& pin) {
      return pin.share == read.keep && is_read(SampleId(pin.item.value));
    });
  }
  if (batch.lost_reads++ == 0) to_look_up_.push_back(index);
}

void Listed::refuse_failed(const std::function<void(Job&, Refusal)>& refuse) {
  for (const Failed& failed : failed_) {
    const JobIndex job = s_.job_of.find(failed.job);
    if (!job.is_none()) refuse(s_.jobs[job], failed.why);
  }
  failed_.clear();
}

void Listed::look_again() {
  for (const BatchIndex index : std::exchange(to_look_up_, {})) {
    if (!s_.batches.live(index) || batches_[index].lost_reads == 0) continue;  // it is gone
    Batch& batch = batches_[index];
    batch.waiting_reads -= std::exchange(batch.lost_reads, 0);
    look_up(index, true);
  }
}

// ---------------------------------------------------------------------- where samples are ----

// Finds or reads the samples of the batch that are missing.
void Listed::look_up(BatchIndex index, bool again) {
  Batch& batch = batches_[index];
  const Around around{index, s_.node_of.at(batch.node), &s_.datasets[s_.jobs[batch.job].dataset],
                      again};
  first_indices_.clear(batch.missing.size());
  firsts_.clear();
  for (const std::uint32_t at : batch.missing) want(around, at);
  batch.missing.clear();
  send_reads(around);
  for (const auto& [at, first] : firsts_)
    batch.ingredients[at].staging = batch.ingredients[first].staging;
  if (batch.waiting_reads == 0) ready(index);
}

void Listed::want(const Around& around, std::uint32_t at) {
  Batch& batch = batches_[around.batch];
  const SampleId sample = batch.ingredients[at].sample;
  const NodeIndex home = item_shares_.home_of(*around.dataset, sample, around.node);
  const bool is_here = home == around.node;
  batch.ingredients[at].staging = RequestId::none();
  if (!is_here) {
    // What comes from elsewhere comes once, however often it stands in the batch.
    const std::uint32_t first = first_indices_.first_index(sample, at);
    if (first != at) return firsts_.push_back({at, first});
  }
  const ItemCache* encoded = item_shares_.cache(home, around.dataset->id, 0);
  const ShareId index = encoded ? encoded->dram : ShareId::none();
  ShareId keep = ShareId::none();
  const Slots slots =
      index.is_none() ? 0 : slots_for(batch.asked[at].bytes, s_.memory[index].spec.slot_bytes);
  // A list reads no bundles.
  if (!index.is_none() && s_.memory[index].share->capacity() > 0 && slots <= kItemSlotsMost &&
      s_.memory[index].spec.bundle_shift == 0) {
    const ItemId item = s_.memory[index].spec.item_of(sample);
    Share& share = *s_.memory[index].share;
    gone_.clear();
    const Share::Result result = share.access({item, slots, batch.asked[at].next_use}, gone_);
    for (const ItemId gone : gone_) s_.evicted.push_back({index, gone});
    gone_.clear();
    const Reads::Provider provider = reads_.provider(index, item);
    const bool is_kept = result == Share::Result::hit && !provider.in_vain;
    if (is_here && result != Share::Result::bypassed && !provider.in_vain) pin(around, index, item);
    if (is_kept && is_here) {
      if (!provider.read.is_none()) reads_.wait_for_listed(provider.read, around.batch);
      return;
    }
    // A copy that could not be fetched may still be there. It is not fetched again.
    const bool may_be_bad = around.again && provider.read.is_none();
    if (is_kept && !is_here && !may_be_bad) {
      if (use_under_way(around, at)) return;
      share.pin(item);  // for the read that fetches it
      return groups_.add({index, ShareId::none(), Form::encoded, provider.read}, sample, at);
    }
    if (result == Share::Result::inserted) {
      keep = index;
      share.pin(item);  // for the read that will bring it
    }
  }
  // An item that was let in just now is read for the share.
  if (keep.is_none() && use_under_way(around, at)) return;
  groups_.add({ShareId::none(), keep}, sample, at);
}

void Listed::pin(const Around& around, ShareId share, ItemId item) {
  s_.memory[share].share->pin(item);
  batches_[around.batch].pins.push_back({share, item});
}

// It is staged on this node, or on its way to it, for another batch. What is staged for a block is
// in memory of that block.
bool Listed::use_under_way(const Around& around, std::uint32_t at) {
  Ingredient& ingredient = batches_[around.batch].ingredients[at];
  const ShownIndex shown =
      reads_.shown().find(around.node, around.dataset->id, ingredient.sample, Form::encoded);
  if (shown.is_none()) return false;
  const ReadIndex index = reads_.shown()[shown].read;
  const OpenRead& read = s_.reads[index];
  if (!read.staged) {
    reads_.wait_for_listed(index, around.batch);
    pin(around, read.keep, item_of(ingredient.sample, read.bundle_shift));
    return true;
  }
  if (!read.listed) return false;
  reads_.hold_listed(shown, around.batch);
  ingredient.staging = read.request.id;
  return true;
}

// A sample that stands in a batch twice is read once.
void Listed::send_reads(const Around& around) {
  drop_evicted(s_);
  std::vector<Ingredient>& ingredients = batches_[around.batch].ingredients;
  for (const ReadGroups::Group& group : groups_.all()) {
    once_.clear();
    first_indices_.clear(group.samples.size());
    for (std::uint32_t at = 0; at < group.samples.size(); ++at) {
      if (first_indices_.first_index(group.samples[at], at) == at)
        once_.push_back(group.samples[at]);
    }
    Reads::Spec spec = read_spec(s_, group.source, around.dataset->id, around.node);
    spec.listed = true;
    spec.source_pinned = true;
    const ReadIndex read = reads_.open(spec, once_);
    reads_.own_listed(read, around.batch);
    if (!s_.reads[read].staged) continue;
    for (const std::uint32_t at : group.ingredients)
      ingredients[at].staging = s_.reads[read].request.id;
  }
  groups_.clear();
}

}  // namespace batchflow::engine
