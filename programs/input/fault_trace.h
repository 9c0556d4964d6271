// The times at which nodes of a cluster were down, as their operators recorded them: a CSV with the
// columns `node`, `down` and `up`, in any order. They become faults of a scenario.
//
// A time is a number of seconds, or a duration (10min), from the start of the run; or a date, where
// the run has a calendar. An empty `up`: the node did not come back.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "programs/input/scenario.h"

namespace batchflow::input {

// Reads a text of another form as time since the start of the run; it may be negative. None: the
// text is no time.
using ReadFaultTime = std::function<std::optional<Duration>(std::string_view text)>;

struct FaultTraceCounts {
  std::size_t faults = 0;     // that were added
  std::size_t too_early = 0;  // over before the run begins
  std::size_t too_late = 0;   // after the run ends, by `ends_after`
  // Faults that last longer than the engine waits for a lost rank: jobs that they strike end with
  // an error.
  std::size_t too_long = 0;
};

// A sentence for people; empty where there were no rows.
std::string text_of(const FaultTraceCounts& counts, const Scenario& scenario);

// Adds a fault to the scenario for each row, merged where rows of a node overlap. Throws
// ConfigError with the line.
FaultTraceCounts add_fault_trace(Scenario& scenario, const std::string& path,
                                 const ReadFaultTime& other_time = {});

}  // namespace batchflow::input
