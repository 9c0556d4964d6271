// The figures that runs are compared by, listed once for tables, reports and sweeps.
#pragma once

#include <span>
#include <string>

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
// Throws ConfigError, which names the nearest field.
const Figure& figure_named(const std::string& field);

}  // namespace batchflow::sim
