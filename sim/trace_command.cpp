#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>

#include "core/base/config_value.h"
#include "programs/output/output.h"
#include "programs/output/output_flags.h"
#include "programs/output/terminal.h"
#include "programs/output/usage.h"
#include "sim/commands.h"
#include "sim/job_columns.h"
#include "sim/job_log.h"
#include "sim/numbers.h"
#include "sim/trace_report.h"
#include "traces/byte_source.h"
#include "traces/formats/format.h"
#include "traces/job_synth.h"
#include "traces/job_trace.h"

namespace batchflow::sim {
namespace {

struct TraceOptions : JobLogOptions {
  std::string output;
  output::OutputFlags outputs;
};

int show_info(const TraceOptions& options) {
  options.outputs.check(options.trace);
  const traces::JobTrace trace = read_job_log(options);
  const traces::JobStatistics statistics = traces::job_statistics(trace);
  if (options.outputs.wanted("json")) options.outputs.write("json", trace_json(trace, statistics));
  options.outputs.write_text(trace_table(trace, statistics));
  return 0;
}

void write_trace(const traces::JobTrace& trace, const std::string& path) {
  output::ProgressBar bar("writing " + path);
  output::write_file_atomically(path,
                                traces::encoded_for(path, traces::job_csv(trace, progress_of(bar))),
                                output::check_interrupted);
}

// Called before the work is done.
void check_output(const TraceOptions& options) {
  output::require_writable(options.output);
  if (options.trace.empty()) return;
  if (output::same_file(options.output, options.trace == "-" ? "/dev/stdin" : options.trace)) {
    throw ConfigError(
        fmt::format("--output={} would overwrite what is read; name another file", options.output));
  }
}

int convert(const TraceOptions& options) {
  check_output(options);
  const traces::JobTrace trace = read_job_log(options);
  write_trace(trace, options.output);
  output::say(fmt::format("{}: {} jobs of {} rows, read as {}", options.trace,
                          count_text(trace.jobs.size()), count_text(trace.rows), trace.format));
  std::string problems = problems_text(trace);
  while (!problems.empty()) {  // a line each
    const std::size_t end = problems.find('\n');
    output::say(problems.substr(0, end));
    problems.erase(0, end + 1);
  }
  return 0;
}

struct SynthCommand {
  TraceOptions like;  // the trace to be matched, if any, and where the result goes
  std::uint64_t jobs = 0, days = 0, gpus = 0;  // 0: as the trace to be matched has
  std::uint64_t seed = 1;
};

int synthesize(const SynthCommand& command) {
  check_output(command.like);
  traces::SynthOptions options;
  traces::SynthModel model = traces::usual_job_model();
  if (!command.like.trace.empty()) {
    const traces::JobTrace trace = read_job_log(command.like);
    model = traces::fit_job_model(trace);
    const traces::JobStatistics statistics = traces::job_statistics(trace);
    constexpr std::int64_t kDayNs = 86'400 * traces::kNanosPerSecond;
    options.jobs = statistics.jobs;
    options.days = static_cast<std::uint64_t>(
        (statistics.last_submit_ns - statistics.first_submit_ns) / kDayNs + 1);
    options.gpus = static_cast<std::uint64_t>(
        std::max(1.0, std::ceil(std::max(statistics.gpus_at_once_most, statistics.gpus.most))));
  }
  if (command.jobs > 0) options.jobs = command.jobs;
  if (command.days > 0) options.days = command.days;
  if (command.gpus > 0) options.gpus = command.gpus;
  options.seed = command.seed;
  traces::JobTrace trace;
  {
    output::ProgressBar bar("making jobs");
    options.progress = progress_of(bar);
    trace = traces::synthesize_jobs(model, options);
  }
  write_trace(trace, command.like.output);
  output::say(fmt::format("{}: {} jobs in {} days on {} GPUs, seed {}", command.like.output,
                          count_text(options.jobs), options.days, count_text(options.gpus),
                          options.seed));
  return 0;
}

std::string formats_help() {
  std::string text = "Formats, recognised by the content (* checked on real files):\n";
  for (const traces::JobFormat* format : traces::job_formats()) {
    text += fmt::format("  {:<12}{} {}\n", format->name, format->checked ? '*' : ' ', format->help);
  }
  return text;
}

void add_format(CLI::App& command, TraceOptions& options) {
  add_columns_option(command, options.columns);
  command
      .add_option("--format", options.format,
                  "The format of the file, in place of a guess by its content")
      ->type_name("FORMAT");
  add_corrupt_limit(command, options.corrupt_limit);
}

void add_reading(CLI::App& command, TraceOptions& options) {
  command
      .add_option("FILE", options.trace,
                  "A log of jobs, plain, gzip or zstd; - for standard input; or a made one as\n"
                  "gen:cluster,jobs=1000,days=7,gpus=64,seed=1")
      ->required();
  add_format(command, options);
}

void add_output(CLI::App& command, TraceOptions& options) {
  command
      .add_option("-o,--output", options.output,
                  "BatchFlow's own CSV; compressed if it ends in .zst or .gz; - is standard output")
      ->required()
      ->type_name("FILE");
}

template <class Given>
CLI::App* add_subcommand(CLI::App& command, Action& action, const char* name, const char* help,
                         const std::shared_ptr<Given>& options, int (*run)(const Given&)) {
  CLI::App* subcommand = command.add_subcommand(name, help);
  subcommand->callback([=, &action] { action = [=] { return run(*options); }; });
  return subcommand;
}

void add_synth_command(CLI::App& command, Action& action) {
  constexpr std::uint64_t kMostJobs = 10'000'000, kMostDays = 3650, kMostGpus = 1'000'000;
  const auto options = std::make_shared<SynthCommand>();
  CLI::App* synth = add_subcommand(command, action, "synth",
                                   "Make a log of jobs, like a trace or like those published",
                                   options, synthesize);
  add_output(*synth, options->like);
  synth
      ->add_option("--like", options->like.trace,
                   "A log of jobs to be matched: arrivals by weekday and hour, shares of GPU\n"
                   "counts, durations by GPUs (two lognormals), how unequal users are, statuses")
      ->type_name("FILE");
  add_format(*synth, options->like);
  output::add_whole_number(*synth, "--jobs", options->jobs, 1, kMostJobs,
                           "How many jobs (default: 100000, or as --like has)");
  output::add_whole_number(*synth, "--days", options->days, 1, kMostDays,
                           "The days in which they are submitted (default: 75, or as --like has)");
  output::add_whole_number(
      *synth, "--gpus", options->gpus, 1, kMostGpus,
      "GPUs of the cluster; jobs start first come, first served (default: 2490,\n"
      "or the most that jobs of --like had at once)");
  output::add_whole_number(*synth, "--seed", options->seed, 0, UINT64_MAX,
                           "The same seed gives the same file (default: 1)");
}

}  // namespace

void add_trace_command(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("trace", "Look into the job log of a cluster, convert it, or make one");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  batchflow-sim trace info cluster_job_log.gz\n"
      "  batchflow-sim trace convert trace_seren.csv -o seren.csv.zst\n"
      "  batchflow-sim trace synth --jobs 10000 --days 7 -o week.csv\n"
      "  batchflow-sim trace faults fault_trace.json");
  const auto info = std::make_shared<TraceOptions>();
  CLI::App* show = add_subcommand(*command, action, "info",
                                  "Counts, GPUs, durations, arrivals, and what is wrong with it",
                                  info, show_info);
  add_reading(*show, *info);
  info->outputs.add(*show, "json", "JSON");
  show->footer(formats_help());
  const auto conversion = std::make_shared<TraceOptions>();
  CLI::App* to_csv = add_subcommand(*command, action, "convert",
                                    "Write a log as BatchFlow's own CSV", conversion, convert);
  add_reading(*to_csv, *conversion);
  add_output(*to_csv, *conversion);
  to_csv->footer(formats_help());
  add_synth_command(*command, action);
  add_fault_trace_command(*command, action);
}

}  // namespace batchflow::sim
