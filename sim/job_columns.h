// The columns of a log that no format knows, from a file of a dozen lines (docs/traces.md).
#pragma once

#include <string>

#include "traces/job_trace.h"

namespace CLI {
class App;
}

namespace batchflow::sim {

// Throws ConfigError.
traces::JobColumns read_job_columns(const std::string& path);

void add_columns_option(CLI::App& command, std::string& path);

}  // namespace batchflow::sim
