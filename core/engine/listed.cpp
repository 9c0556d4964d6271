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

  const std::uint32_t index = s_.batches.make();
  Batch& batch = s_.batches[index];
  batch.job = job.index;
  batch.rank = event.rank;
  batch.step = rank.next_step++;
  batch.node = rank.node;
  batch.samples = static_cast<std::uint32_t>(event.samples.size());
  rank.batches.push_back(index);
  rank.stall.wanted(s_.now, 1);
  const std::uint32_t node = s_.node_of.at(rank.node.value);
  for (std::size_t i = 0; i < event.samples.size(); ++i) {
    const SampleId sample = event.samples[i];
    items_.want_listed(index, node, s_.datasets[job.dataset].id, sample,
                       event.sizes.empty() ? catalogue.bytes(sample) : event.sizes[i],
                       event.next_uses.empty() ? kUnknownUse : event.next_uses[i]);
  }
  items_.order_listed(index, node, s_.datasets[job.dataset].id);
  if (batch.waiting_reads == 0) ready(index);
}

void Listed::ready(std::uint32_t index) {
  Batch& batch = s_.batches[index];
  const Job& job = s_.jobs[batch.job];
  Deliver order;
  order.request = s_.requests.open(RequestKind::deliver, index);
  order.job = job.id;
  order.rank = batch.rank;
  order.step = batch.step;
  order.place = {batch.node, Tier::dram, 0};
  order.ingredients = s_.arena.copy(batch.ingredients);
  batch.request = order.request.id;
  batch.state = Batch::State::delivering;
  s_.order(order);
  ++s_.counters.batches;
  s_.counters.samples += batch.samples;
}

// The batch's job is refused before the step ends. The items that were to be read leave their
// share, and the batch's pins go with them.
void Listed::failed(std::uint32_t index, std::optional<Refusal> why) {
  Batch& batch = s_.batches[index];
  for (const ItemPin& pin : batch.pins) s_.memory[pin.share].share->unpin(pin.item);
  batch.pins.clear();
  failed_.push_back({s_.jobs[batch.job].id, why.value_or(Refusal::storage_failed)});
}

void Listed::refuse_failed(const std::function<void(Job&, Refusal)>& refuse) {
  for (const Failed& failed : failed_) {
    const std::uint32_t job = s_.job_of.find(failed.job.value);
    if (job != kNone) refuse(s_.jobs[job], failed.why);
  }
  failed_.clear();
}

}  // namespace batchflow::engine
