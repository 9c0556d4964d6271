// A job trace's statistics and problems, as a table for people and as JSON.
#pragma once

#include <string>

#include "traces/job_statistics.h"

namespace batchflow::sim {

std::string trace_table(const JobTrace& trace, const JobStatistics& statistics);
std::string trace_json(const JobTrace& trace, const JobStatistics& statistics);
// One line for each kind of problem, or nothing.
std::string problems_text(const JobTrace& trace);

}  // namespace batchflow::sim
