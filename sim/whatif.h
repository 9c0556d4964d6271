// What would be gained: a scenario as it is, and with other policies, memory or hardware, each with
// several seeds. Differences are taken between runs of the same seed, with 95 % intervals.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "programs/config/config.h"
#include "programs/output/results.h"
#include "sim/figures.h"

namespace batchflow::sim {

struct WhatIfQuestion {
  std::vector<std::string> policies;   // as of `run`: each combination is a candidate
  std::vector<std::string> overrides;  // of every candidate
  std::uint64_t seeds = 5;
  // Figures are of the time from then on: what is before warms the caches.
  double from_s = 0;
};

struct WhatIfCandidate {
  std::string label;
  std::vector<std::pair<std::string, std::string>> choices;  // kind or `preset`, and policy
  std::vector<output::RunResult> runs;                       // by seed, of the time that counts
  std::string failure;                                       // why a run has no results
};

struct WhatIfAnswer {
  std::size_t seeds = 0;
  WhatIfCandidate as_is;
  std::vector<WhatIfCandidate> candidates;
  bool interrupted = false;  // not all seeds were run
};

// The tree is that of a scenario. Throws ConfigError before anything runs.
WhatIfAnswer ask_whatif(const config::ConfigNode& tree, const WhatIfQuestion& question);

// The candidate that surely brings more samples a second, by at least one in a hundred; of several,
// the candidate that brings most. Null: none.
const WhatIfCandidate* best_of(const WhatIfAnswer& answer);

// What was recorded, as far as a journal has it, in the fields of a run.
using RecordedResult = std::optional<output::RunResult>;
// Figures in which the simulation is far from what was recorded, a line each.
std::vector<std::string> far_from_recorded(const WhatIfAnswer& answer,
                                           const RecordedResult& recorded);
std::string whatif_table(const WhatIfAnswer& answer, const RecordedResult& recorded);
// Adds the members `seeds`, `recorded`, `as_is`, `candidates`, `best` and `far`.
void add_whatif(nlohmann::ordered_json& to, const WhatIfAnswer& answer,
                const RecordedResult& recorded);

}  // namespace batchflow::sim
