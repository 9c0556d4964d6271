#include "sim/world/listed_batches.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/order/permutation.h"
#include "sim/world/chance.h"
#include "sim/world/counters.h"
#include "sim/world/job_ids.h"
#include "sim/world/reports.h"

namespace batchflow::world {

std::uint64_t ListedBatches::items_of(const Job& job) const {
  return world_.workload.data(world_.workload.dataset(*job.model)).catalogue->samples();
}

std::uint64_t ListedBatches::steps_of_epoch(const Job& job) const {
  const std::uint64_t step = std::uint64_t{job.rank_batch()} * job.nodes.size();
  return (items_of(job) + (job.model->drop_last ? 0 : step - 1)) / step;
}

std::uint64_t ListedBatches::steps_of(const Job& job) const {
  return steps_of_epoch(job) * job.model->epochs;
}

ListedBatches::Range ListedBatches::range_of(const Job& job, Rank rank, std::uint64_t step) const {
  const std::uint64_t batch = job.rank_batch();
  const std::uint64_t from = (step % steps_of_epoch(job) * job.nodes.size() + rank) * batch;
  return {from, from + batch};
}

void ListedBatches::ask(const Job& job, Rank rank, std::uint64_t step) const {
  if (step >= steps_of(job) || (job.model->steps > 0 && step >= job.model->steps)) return;
  // Jobs with the same seed have the same lists.
  const bool has_seed = job.model->has_shuffle_seed;
  const std::uint64_t seed = has_seed ? job.model->shuffle_seed : world_.ids.index_of(job.id);
  Random chance = chance_of(world_.scenario.seed, Chance::list, std::uint64_t{has_seed}, seed,
                            step / steps_of_epoch(job));
  const std::uint64_t items = items_of(job);
  const order::Permutation order(chance.draw(), items);
  const Range range = range_of(job, rank, step);
  std::vector<SampleId> samples;
  for (std::uint64_t at = range.from; at < range.to; ++at) samples.emplace_back(order(at % items));
  world_.counters.samples_requested += job.preparation->stored(samples.size());
  world_.reports.fact(
      engine::SamplesWanted{job.id, rank, world_.reports.keep(std::move(samples)), {}, {}});
}

void ListedBatches::complete(const Job& job, Delivered& batch) const {
  const std::uint64_t step = job.steps_done + batch.step - job.step;
  const Range range = range_of(job, batch.rank, step);
  const std::uint64_t fillers = range.to - std::clamp(items_of(job), range.from, range.to);
  batch.fillers = job.preparation->stored(fillers);
  batch.samples -= batch.fillers;
  batch.last_of_epoch = (step + 1) % steps_of_epoch(job) == 0;
}

}  // namespace batchflow::world
