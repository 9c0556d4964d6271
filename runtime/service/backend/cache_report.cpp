#include "runtime/service/backend/cache_report.h"

#include <utility>

namespace batchflow::service {

std::vector<CacheShare> report_cache(const Datasets& datasets, const KeptSamples& kept,
                                     const Spill* spill, const BlockSlots& slots) {
  std::vector<CacheShare> all;
  for (const auto& [what, shares] : kept.shares()) {
    const auto& [dataset, prefix] = what;
    for (const ShareId share : shares) {
      const ItemStore::Sum sum = kept.store().sum(share);
      all.push_back({share, prefix == 0 ? Form::encoded : Form::decoded, Tier::dram,
                     datasets.dataset(DatasetId(dataset)).name, "", sum.items, 0, sum.bytes});
    }
  }
  if (spill) {
    for (const auto& [dataset, sum] : spill->sums()) {
      all.push_back({sum.share, Form::encoded, Tier::nvme,
                     datasets.dataset(DatasetId(dataset)).name, "", sum.items, 0, sum.bytes});
    }
  }
  for (const SlotMemory::Use& use : slots.memory().uses()) {
    CacheShare one{use.share, Form::prepared, Tier::dram, "", "", use.taken, use.slots, use.bytes};
    if (const BlockSlots::Use* what = slots.use_of(use.share)) {
      const ServedPipeline& pipeline = datasets.pipeline(what->pipeline);
      one.pipeline = pipeline.name;
      one.dataset = datasets.dataset(pipeline.dataset).name;
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace batchflow::service
