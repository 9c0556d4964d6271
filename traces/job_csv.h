// Writes a job trace as BatchFlow's own CSV, which the readers of this folder read back exactly:
// the same jobs, texts and times. docs/traces.md describes the columns.
#pragma once

#include <string>

#include "traces/job_trace.h"

namespace batchflow::traces {

std::string job_csv(const JobTrace& trace, const Progress& progress = {});

}  // namespace batchflow::traces
