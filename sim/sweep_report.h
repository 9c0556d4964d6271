// The results of a study, for people, programs and spreadsheets.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/figures.h"
#include "sim/study.h"

namespace batchflow::sim {

// The results of a plan's runs, by index; none for missing runs.
struct SweepResults {
  const StudyPlan& plan;
  std::vector<std::optional<output::RunResult>> runs;

  // Over the seeds of a point with runs that are there and did not fail.
  Estimate estimate(std::size_t point, const Figure& figure) const;
  std::size_t count() const;
  std::vector<output::RunResult> finished() const;  // all runs that are there, failed ones too
};

std::string sweep_table(const SweepResults& results);
// The JSON of `run`, with `study` and `points` beside the runs.
std::string sweep_json(const SweepResults& results);
// A report with plots.
std::string sweep_html(const SweepResults& results);

// A row a run: the value on each axis, the seed, the figures.
std::string sweep_csv(const SweepResults& results);

// `5.1 ± 0.2`; unknown parts are left out.
std::string estimate_text(const Estimate& estimate, const Figure& figure);

}  // namespace batchflow::sim
