// A study: a scenario run at every combination of what is varied, each with several seeds. It is
// read from YAML, and planned before anything runs.
#pragma once

#include <string>
#include <vector>

#include "programs/config/config.h"
#include "sim/planned_runs.h"

namespace batchflow::sim {

// One thing that is varied: a path of the scenario, or `policy`.
struct StudyAxis {
  std::string name;
  std::vector<std::string> values;  // as they were written
};

struct StudyPlan {
  std::string name;
  std::string about;
  std::vector<StudyAxis> axes;
  // By point: the index of its value on each axis.
  std::vector<std::vector<std::size_t>> points;
  std::size_t seeds = 1;
  // The runs of a point stand together, by seed.
  std::vector<PlannedRun> runs;
  std::vector<std::string> notes;    // what was renamed where workloads were mixed
  std::vector<std::string> figures;  // that tables and plots show
  std::string fingerprint;           // a hash of all that the results depend on
  // With `warm_start`, by seed: the common beginning of all runs of that seed.
  std::vector<input::Scenario> beginnings;
  Instant warm_until{};

  std::size_t point_of(std::size_t run) const { return run / seeds; }
  const std::string& value(std::size_t point, std::size_t axis) const {
    return axes[axis].values[points[point][axis]];
  }
};

// `name_or_path`: a file, or the name of a file in configs/studies. Throws ConfigError.
StudyPlan plan_study(const std::string& name_or_path);

// A commented study with every setting.
std::string study_template();

}  // namespace batchflow::sim
