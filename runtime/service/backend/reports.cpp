#include "runtime/service/backend/reports.h"

#include <map>
#include <set>
#include <utility>

#include "runtime/step/step_plugin.h"

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

namespace {

void add_elsewhere(StepReport& report, PipelineId pipeline, std::uint32_t step,
                   std::span<const StepTally> elsewhere) {
  for (const StepTally& one : elsewhere) {
    if (one.pipeline != pipeline || one.step != step) continue;
    report.broken = report.broken || one.broken;
    report.counters += one.counters;
  }
}

}  // namespace

std::vector<StepReport> report_steps(const Datasets& datasets,
                                     std::span<const StepTally> elsewhere) {
  std::vector<StepReport> all;
  std::map<const step::StepPlugin*, std::size_t> known;  // a step may be that of many pipelines
  for (const auto& pipeline : datasets.pipelines()) {
    if (!pipeline->pipeline) continue;
    const auto steps = pipeline->pipeline->plugins();
    for (std::uint32_t i = 0; i < steps.size(); ++i) {
      const step::StepPlugin& step = *steps[i];
      const auto [found, is_new] = known.try_emplace(&step, all.size());
      if (!is_new) {
        add_elsewhere(all[found->second], pipeline->id, i, elsewhere);
        continue;
      }
      const step::StepDeclaration& declared = step.declared();
      StepReport report{pipeline->name,
                        datasets.all().at(pipeline->dataset.value)->name,
                        declared.name,
                        declared.version,
                        step.source().file.string(),
                        declared.random,
                        step.is_broken(),
                        step.counters(),
                        step.folder_problem()};
      add_elsewhere(report, pipeline->id, i, elsewhere);
      all.push_back(std::move(report));
    }
  }
  return all;
}

std::vector<StepTally> tally_steps(const Datasets& datasets) {
  std::vector<StepTally> all;
  std::set<const step::StepPlugin*> known;
  for (const auto& pipeline : datasets.pipelines()) {
    if (!pipeline->pipeline) continue;
    const auto steps = pipeline->pipeline->plugins();
    for (std::uint32_t i = 0; i < steps.size(); ++i)
      if (known.insert(steps[i].get()).second)
        all.push_back({pipeline->id, i, steps[i]->is_broken(), steps[i]->counters()});
  }
  return all;
}

}  // namespace batchflow::service
