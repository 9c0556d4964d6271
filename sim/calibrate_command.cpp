// batchflow-sim calibrate: what a recorded run tells of its machine and its data, as files that
// scenarios take. `batchflowctl calibrate` measures the same.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "programs/output/output.h"
#include "programs/output/output_flags.h"
#include "sim/commands.h"
#include "sim/journal_reading.h"
#include "sim/numbers.h"

namespace batchflow::sim {
namespace {

struct CalibrateOptions {
  std::string journal;
  output::OutputFlags outputs;
};

std::string json_of(const std::string& file, const RecordedJournal& read,
                    const input::CalibrationFiles& files) {
  const input::ObservedWorkload& seen = read.run.workload;
  nlohmann::ordered_json all = {{"command", "calibrate"},
                                {"version", BATCHFLOW_VERSION},
                                {"file", file},
                                {"recorded_by", read.run.recorded_by},
                                {"steps", read.run.steps},
                                {"end", read.end_name},
                                {"store", nullptr},
                                {"pipelines", nlohmann::ordered_json::array()},
                                {"jobs", nlohmann::ordered_json::array()},
                                {"assumed", files.assumed},
                                {"left_out", seen.notes}};
  if (seen.store)
    all["store"] = {{"latency_s", seen.store->latency_s}, {"bytes_per_s", seen.store->bytes_per_s}};
  for (const input::ObservedPipeline& one : seen.pipelines)
    all["pipelines"].push_back({{"name", one.name},
                                {"decode_s", one.decode_s},
                                {"augment_s", one.augment_s},
                                {"jitter", one.jitter},
                                {"measured", one.was_measured}});
  for (const input::ObservedJob& one : seen.jobs)
    all["jobs"].push_back(
        {{"name", one.name}, {"step_s", one.step_s}, {"step_jitter", one.step_jitter}});
  return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string text_of(const std::string& file, const RecordedJournal& read,
                    const input::CalibrationFiles& files) {
  const input::ObservedWorkload& seen = read.run.workload;
  std::string text = fmt::format(
      "{}: {} steps of {}, {} jobs, {} samples in {}\n{}", output::printable(file),
      count_text(read.run.steps), output::printable(read.run.recorded_by), seen.jobs.size(),
      count_text(read.run.figures.samples), time_text(read.run.figures.span_s), read.end);
  for (const input::ObservedPipeline& one : seen.pipelines)
    text += fmt::format("{}: {} a sample on one core as stored, {} as decoded, {}\n",
                        output::printable(one.name), time_text(one.decode_s + one.augment_s),
                        time_text(one.augment_s),
                        one.was_measured ? "measured" : "as the service expected");
  for (const std::string& one : files.assumed)
    text += fmt::format("assumed or estimated: {}\n", output::printable(one));
  return text;
}

int calibrate(const CalibrateOptions& options) {
  options.outputs.check(options.journal);
  const RecordedJournal read = read_recorded_journal(options.journal);
  const input::CalibrationFiles files = input::calibration_of(read.run.workload);
  if (options.outputs.wanted("cluster")) options.outputs.write("cluster", files.cluster);
  if (options.outputs.wanted("workload")) options.outputs.write("workload", files.workload);
  if (options.outputs.wanted("json"))
    options.outputs.write("json", json_of(options.journal, read, files));
  options.outputs.write_text(text_of(options.journal, read, files));
  return 0;
}

}  // namespace

void add_calibrate_command(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("calibrate", "Learn a machine and its data from a recorded run");
  const auto options = std::make_shared<CalibrateOptions>();
  command
      ->add_option("JOURNAL", options->journal,
                   "A journal of `batchflowd --journal`, or of `run --journal`")
      ->required();
  options->outputs.add(*command, "cluster", "YAML");
  options->outputs.add(*command, "workload", "YAML");
  options->outputs.add(*command, "json", "JSON");
  command->footer(
      "What the journal's times do not tell is assumed, and named. `batchflowctl calibrate\n"
      "DATASET` measures more.\n"
      "Example:\n"
      "  batchflow-sim calibrate state/journal --cluster=seen.yaml --workload=seen-data.yaml");
  command->callback([options, &action] { action = [options] { return calibrate(*options); }; });
}

}  // namespace batchflow::sim
