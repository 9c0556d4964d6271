// What simulated jobs report after a batch of how much its samples matter: by the model of their
// scenario, or as a training recorded it.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "programs/input/recorded_scores.h"
#include "sim/world/backend.h"
#include "sim/world/reports.h"

namespace batchflow::world {

class ScoreReports {
 public:
  // Both outlive it. Throws ConfigError for a recording that cannot be read.
  ScoreReports(const input::Scenario& scenario, Reports& reports);

  // The job has trained on the batch. By a recording, it reports of each sample the last score by
  // the end of the batch's epoch, and nothing of a sample that had none by then.
  void report(const input::JobModel& job, const Delivered& batch);

 private:
  std::optional<float> score(const input::JobModel& job, SampleId sample,
                             std::uint32_t epoch) const;

  const input::Scenario& scenario_;
  Reports& reports_;
  std::map<std::string, input::RecordedScores> recorded_;  // by file
};

}  // namespace batchflow::world
