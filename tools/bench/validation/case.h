// A validation case: a scenario, and rows that each compare a figure of a run with a published one.
//
// The figure of a row is what `measure` names in the results of a run (a path, as
// `aggregate.hit_ratio` or `jobs.0.time_s`). The figure of a second run may be subtracted (`minus`:
// the cost of an epoch is that of six epochs less that of one), and that of a third may be divided
// by it (`over`: a speed-up). All of it is data; every figure that is computed with is in the file.
#pragma once

#include <string>
#include <vector>

#include "programs/config/config.h"

namespace batchflow::validation {

// What the published figure is to the row.
enum class Role : std::uint8_t {
  calibrated,  // the case's own parameters were chosen so that it fits
  predicted,   // by a model calibrated elsewhere: must be within `accept`
  derived,     // a closed form of the set-up: must be within `accept`
  reported,    // shown beside, with no bound
};

struct Row {
  std::string name;
  std::string measure;
  std::vector<std::string> set;    // overrides of the scenario
  std::vector<std::string> minus;  // beside them, of the run that is subtracted; empty: none is
  std::vector<std::string> over;   // of the run with the figure that is divided by the row's
  bool inverse = false;            // 1 / figure: a rate from a time
  double factor = 1;
  double published = 0;
  double published_most = 0;  // above `published`: any figure between is right
  Role role = Role::predicted;
  double accept = 0;  // relative, of predicted and derived rows
};

struct Case {
  std::string title;
  std::string about;  // where the figures are from, and what is assumed
  std::string unit;
  std::uint64_t seeds = 1;  // every run is repeated with so many; figures are means
  double mean_accept = 0;   // of the mean of the predicted rows' errors; 0: no bound
  config::ConfigNode scenario;
  std::vector<Row> rows;
};

// Throws ConfigError.
Case read_case(const std::string& path);

}  // namespace batchflow::validation
