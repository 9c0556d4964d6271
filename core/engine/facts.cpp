#include "core/engine/facts.h"

#include <utility>

#include "core/engine/books.h"

namespace batchflow::engine {

void Facts::complete(PlaceView& place, std::span<ShareView> views,
                     const Allocation::Shares& shares) {
  const NodeIndex index = s_.node_of.find(place.place.node);
  if (!index.is_none()) {
    const Node& node = s_.nodes[index];
    place.workers = node.workers;
    place.busy = node.busy.at(s_.now);
    place.waits_for_reads = node.waits_for_reads.at(s_.now);
    place.store_bytes_per_s = node.store_bytes.per_second(s_.now);
  }
  for (ShareView& view : views) complete(view, shares[view.share]);
}

void Facts::count(const Stream& stream, Demand& sum) const {
  for (const JobIndex index : stream.jobs) {
    const Job& job = s_.jobs[index];
    sum.weight += job.weight;
    double stalled = 0;
    for (const RankState& rank : job.ranks) stalled += rank.stall.recently(s_.now);
    sum.stalled += job.weight * stalled / static_cast<double>(job.ranks.size());
    sum.wanted_per_s += wanted_per_s(job);
  }
  const double made = stream.made.per_second(s_.now);
  sum.made_per_s += made;
  sum.saved_s += made * (stream.costs.encoded_s() - stream.costs.decoded_s());
}

Facts::Demand Facts::count(const SharePart& part, const Dataset& dataset) const {
  Demand sum;
  if (!part.stream.is_none()) {
    count(s_.streams[part.stream], sum);
    return sum;
  }
  for (const StreamId index : dataset.streams) {
    const Stream& stream = s_.streams[index];
    const bool uses = part.spec.prefix == 0 || stream.pipeline->prefix_hash == part.spec.prefix;
    if (uses) count(stream, sum);
  }
  return sum;
}

const Facts::Demand& Facts::demand(const SharePart& part, const Dataset& dataset) {
  if (std::exchange(round_, s_.memory.plan_rounds()) != s_.memory.plan_rounds()) demands_.clear();
  const auto [found, is_new] =
      demands_.try_emplace({part.stream, part.spec.dataset, part.spec.prefix});
  if (is_new) found->second = count(part, dataset);
  return found->second;
}

void Facts::complete(ShareView& view, const SharePart& part) {
  if (part.spec.use == ShareUse::batches) return;  // what ranks hold; nothing is found there
  const Dataset& dataset = s_.datasets[s_.dataset_of.at(part.spec.dataset)];
  const auto mean_bytes = static_cast<double>(dataset.catalogue->mean_bytes());
  const Demand& demand = this->demand(part, dataset);
  view.samples_all = dataset.catalogue->samples();
  if (!part.stream.is_none()) {
    const Stream& stream = s_.streams[part.stream];
    view.samples_all = stream.epoch_samples;
    view.worker_s = stream.prepare_s / stream.block_samples;
    view.store_bytes = mean_bytes * (1 - item_shares_.cached(stream));
    view.slots_needed = part.needed_most;
    view.remade_per_s = stream.remade.per_second(s_.now);
  } else {
    const bool decoded = part.spec.use == ShareUse::decoded;
    if (decoded && demand.made_per_s > 0) view.worker_s = demand.saved_s / demand.made_per_s;
    view.store_bytes = mean_bytes;
  }
  view.weight = demand.weight;
  view.stall = demand.weight > 0 ? demand.stalled / demand.weight : 0;
  view.wanted_per_s = demand.wanted_per_s;
  view.made_per_s = demand.made_per_s;
}

}  // namespace batchflow::engine
