// Reads the job log that a command names.
#pragma once

#include <string>

#include "programs/output/terminal.h"
#include "traces/job_trace.h"

namespace CLI {
class App;
}

namespace batchflow::sim {

struct JobLogOptions {
  std::string trace;
  std::string format = "auto";
  std::string columns;  // a file; empty: none
  std::string corrupt_limit = "1%";
};
// Shows its progress. Throws ConfigError.
traces::JobTrace read_job_log(const JobLogOptions& options);

void add_corrupt_limit(CLI::App& command, std::string& text);

// Reports to a progress bar, and ends the work where it was interrupted.
traces::Progress progress_of(output::ProgressBar& bar);

}  // namespace batchflow::sim
