#include "sim/world/score_reports.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/world/chance.h"

namespace batchflow::world {

ScoreReports::ScoreReports(const input::Scenario& scenario, Reports& reports)
    : scenario_(scenario), reports_(reports) {
  for (const input::JobModel& job : scenario.jobs) {
    const std::string& file = job.importance.recorded;
    if (!file.empty()) recorded_.try_emplace(file, file);
  }
}

void ScoreReports::report(const input::JobModel& job, const Delivered& batch) {
  if (!job.importance.reports()) return;
  for (std::size_t first = 0; first < batch.drawn.size(); first += engine::kScoresMost) {
    std::vector<engine::Score> scores;
    const std::size_t end = std::min(batch.drawn.size(), first + engine::kScoresMost);
    for (std::size_t i = first; i < end; ++i) {
      const SampleId sample = batch.drawn[i];
      if (const auto value = score(job, sample, batch.epoch)) scores.push_back({sample, *value});
    }
    if (scores.empty()) continue;
    reports_.fact(engine::ScoresReported{batch.job, reports_.keep(std::move(scores))});
  }
}

std::optional<float> ScoreReports::score(const input::JobModel& job, SampleId sample,
                                         std::uint32_t epoch) const {
  const input::Importance& importance = job.importance;
  if (!importance.recorded.empty())
    return recorded_.at(importance.recorded).last(sample.value, epoch);
  const std::uint64_t seed = chance_of(scenario_.seed, Chance::importance, job.dataset).draw();
  return importance.score(seed, sample.value, epoch);
}

}  // namespace batchflow::world
