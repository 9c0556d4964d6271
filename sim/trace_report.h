// The statistics and problems of a job trace, as a table for people and as JSON.
#pragma once

#include <string>

#include "traces/job_statistics.h"

namespace batchflow::sim {

std::string trace_table(const traces::JobTrace& trace, const traces::JobStatistics& statistics);
std::string trace_json(const traces::JobTrace& trace, const traces::JobStatistics& statistics);
// One line for each kind of problem; empty without problems.
std::string problems_text(const traces::JobTrace& trace);

}  // namespace batchflow::sim
