#include "runtime/service/backend/step_report.h"

namespace batchflow::service {

std::vector<StepReport> report_steps(const Datasets& datasets) {
  std::vector<StepReport> all;
  for (const auto& pipeline : datasets.pipelines()) {
    if (!pipeline->pipeline) continue;
    for (const std::shared_ptr<step::StepPlugin>& step : pipeline->pipeline->plugins()) {
      const step::StepDeclaration& declared = step->declared();
      all.push_back({pipeline->name, datasets.all().at(pipeline->dataset.value)->name,
                     declared.name, declared.version, step->source().file.string(), declared.random,
                     step->is_broken(), step->counters()});
    }
  }
  return all;
}

}  // namespace batchflow::service
