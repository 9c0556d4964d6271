// A job trace as BatchFlow's own CSV, which every reader of this folder reads back exactly: the
// same jobs, texts and times. docs/traces.md describes the columns.
#pragma once

#include <string>

#include "traces/job_trace.h"

namespace batchflow {

std::string job_csv(const JobTrace& trace, const Progress& progress = {});

}  // namespace batchflow
