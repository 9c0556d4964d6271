// Packs runs for the pipe from the process that simulated them to the process that reports them: a
// tenth of their JSON. For pipes between processes of one program alone; what outlives the program
// is JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "programs/output/results.h"

namespace batchflow::output {

using OptionalRuns = std::vector<std::optional<RunResult>>;  // none: the run has no result

std::string pack_run(const RunResult& run);
std::string pack_runs(const OptionalRuns& runs);

// Throw ConfigError for a text that was not packed, or is cut short.
RunResult unpack_run(std::string_view text);
OptionalRuns unpack_runs(std::string_view text);

}  // namespace batchflow::output
