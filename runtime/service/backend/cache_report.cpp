#include "runtime/service/backend/cache_report.h"

#include <vector>

#include "runtime/service/backend/backend.h"

namespace batchflow::service {

std::vector<CacheShare> Backend::cache() const {
  std::vector<CacheShare> all;
  for (const auto& [kept, shares] : kept_in_) {
    const auto& [dataset, prefix] = kept;
    for (const ShareId share : shares) {
      const ItemStore::Sum sum = items_.sum(share);
      all.push_back({share, prefix == 0 ? Form::encoded : Form::decoded, Tier::dram,
                     datasets_.dataset(DatasetId(dataset)).name, "", sum.items, 0, sum.bytes});
    }
  }
  if (spill_) {
    for (const auto& [dataset, sum] : spill_->sums()) {
      all.push_back({sum.share, Form::encoded, Tier::nvme,
                     datasets_.dataset(DatasetId(dataset)).name, "", sum.items, 0, sum.bytes});
    }
  }
  for (const SlotMemory::Use& use : slots_.uses()) {
    CacheShare one{use.share, Form::prepared, Tier::dram, "", "", use.taken, use.slots, use.bytes};
    if (const auto info = shares_.find(use.share.value); info != shares_.end()) {
      const ServedPipeline& pipeline = datasets_.pipeline(info->second.pipeline);
      one.pipeline = pipeline.name;
      one.dataset = datasets_.dataset(pipeline.dataset).name;
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace batchflow::service
