// What came of a study, for people, programs and spreadsheets.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/figures.h"
#include "sim/statistics.h"
#include "sim/study.h"

namespace batchflow::sim {

// The results of a plan's runs, by index; none for those that are missing.
struct SweepResults {
  const StudyPlan& plan;
  std::vector<std::optional<RunResult>> runs;

  // Over the seeds of a point, as far as its runs are there and did not fail.
  Estimate of(std::size_t point, const Figure& figure) const;
  std::size_t there() const;
  std::vector<RunResult> finished() const;  // or failed: those that are there
};

std::string sweep_table(const SweepResults& results);
// As `run` writes it, with `study` and `points` beside the runs.
std::string sweep_json(const SweepResults& results);
// A row a run: the value on each axis, the seed, the figures.
std::string sweep_csv(const SweepResults& results);

// `5.1 ± 0.2`; without what is not known.
std::string estimate_text(const Estimate& estimate, const Figure& figure);

}  // namespace batchflow::sim
