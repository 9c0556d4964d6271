#include "sim/job_log.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "core/base/config_value.h"
#include "sim/job_columns.h"
#include "traces/job_synth.h"

namespace batchflow::sim {

namespace {

// The part of its lines that may be corrupt.
double corrupt_limit_of(const std::string& text) {
  const auto limit = parse_ratio(text);
  if (!limit || limit->parts > Ratio::kWhole) {
    throw ConfigError(
        fmt::format("--corrupt-limit '{}' is not a part of the lines; write 1% or 0.01", text));
  }
  return static_cast<double>(limit->parts) / static_cast<double>(Ratio::kWhole);
}

}  // namespace

traces::Progress progress_of(output::ProgressBar& bar) {
  return [&bar](double done) {
    output::check_interrupted();
    bar.show(done);
  };
}

traces::JobTrace read_job_log(const JobLogOptions& options) {
  const double limit = corrupt_limit_of(options.corrupt_limit);
  output::ProgressBar bar("reading " + options.trace);
  traces::JobReadOptions reading;
  reading.format = options.format;
  if (!options.columns.empty()) reading.columns = read_job_columns(options.columns);
  reading.corrupt_limit = limit;
  reading.progress = progress_of(bar);
  return traces::open_job_trace(options.trace, reading);
}

void add_corrupt_limit(CLI::App& command, std::string& text) {
  command
      .add_option("--corrupt-limit", text,
                  "Stop when a larger part of the lines cannot be read (default: 1%)")
      ->type_name("PART");
}

}  // namespace batchflow::sim
