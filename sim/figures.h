// The figures that runs are compared by, listed once for tables, reports and sweeps; and what
// several runs that differ by their seed show of a figure: a mean, and how sure it is.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "programs/output/results.h"

namespace batchflow::sim {

enum class Better { none, more, less };

struct Figure {
  const char* name;   // in tables
  const char* field;  // in the JSON
  Better better;
  double (*value)(const output::RunResult&);
  std::string (*text)(double);
  const char* help;
};

std::span<const Figure> figures();
// Those that at least one of the runs has: without prices, runs have no cost.
std::vector<const Figure*> figures_in(std::span<const output::RunResult> runs);
bool is_known(const output::RunResult& run, const Figure& figure);
// Throws ConfigError, which names the nearest field.
const Figure& figure_named(const std::string& field);

struct Estimate {
  double mean = 0;
  double margin =
      0;  // the mean is within this of the truth, 95 times in 100; infinite for one value
  std::size_t count = 0;
};

// The 97.5 % quantile of Student's t, by degrees of freedom (not whole for Welch's): the factor
// that makes a 95 % interval of a standard error. REQUIRES: freedom >= 1
double student_t(double freedom);

// Assumes that values vary normally.
Estimate estimate(std::span<const double> values);
// The estimate of b - a where a[i] and b[i] belong together: the same seed, so the same chance.
Estimate paired_difference(std::span<const double> a, std::span<const double> b);
// The estimate of b - a where they do not (Welch: their variances may differ).
Estimate difference(std::span<const double> a, std::span<const double> b);

// Whether zero is outside the interval.
bool is_significant(const Estimate& difference);

// Below tables of means over seeds. The runs of a point stand together. Where all runs of a point
// were the same, whatever the seed, the text says that an interval of 0 means nothing.
std::string interval_text(std::size_t seeds, std::span<const output::RunResult> runs);

}  // namespace batchflow::sim
