// What a replay did not find but was given, in a report: what the log says, and what had to be
// assumed.
#pragma once

#include <string>

#include "sim/cluster_replay/replay_report.h"

namespace batchflow::sim {

// Sections of run_html: the assumptions of the overlay, and what was left out or repaired.
std::string assumed_html(const Replayed& replayed);

}  // namespace batchflow::sim
