// batchflow-sim journal replay: decides a recorded run, simulated or live, once more.
// `journal whatif` is in whatif_command.cpp.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/config_value.h"
#include "core/log/journal.h"
#include "policies/registry.h"
#include "programs/config/replay_journal.h"
#include "programs/output/output_flags.h"
#include "programs/output/terminal.h"
#include "sim/commands.h"
#include "sim/journal_reading.h"

namespace batchflow::sim {
namespace {

struct JournalOptions {
  std::string file;
  bool explain = false;
  output::OutputFlags outputs;
};

std::string json_text(const std::string& file, const log::JournalReader& journal,
                      const log::ReplayResult& result) {
  nlohmann::ordered_json all = {{"command", "journal replay"},
                                {"version", BATCHFLOW_VERSION},
                                {"file", file},
                                {"recorded_by", journal.header().version},
                                {"seed", journal.header().seed},
                                {"same", result.same()},
                                {"digest", fmt::format("{:016x}", result.digest)},
                                {"steps", result.steps},
                                {"events", result.events},
                                {"end", journal_end_name(journal)},
                                {"bytes_cut", journal.bytes_cut()}};
  if (!result.same()) {
    all["first_difference"] = *result.first_difference;
    all["report"] = result.report;
  }
  return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

int replay_and_report(const JournalOptions& options) {
  options.outputs.check(options.file);
  const std::vector<char> bytes = read_journal(options.file);
  log::JournalReader journal(std::as_bytes(std::span(bytes)), options.file);
  if (!journal.has_header())
    throw ConfigError(options.file + ": cut before its first step; there is nothing to replay");
  config::ExplainAt explain;
  if (options.explain) {
    std::FILE* const to = options.outputs.wanted("json") ? stderr : stdout;
    explain = [to](Instant at, const engine::Decision& decision) {
      const double time = std::chrono::duration<double>(at.time_since_epoch()).count();
      const std::string line = fmt::format("{:.9f} ? {}", time, engine::text_of(decision));
      std::fputs((output::printable(line) + "\n").c_str(), to);
    };
  }
  const log::ReplayResult result =
      config::replay_journal(journal, policies::policy_list(), output::check_interrupted, explain);
  if (options.outputs.wanted("json"))
    options.outputs.write("json", json_text(options.file, journal, result));
  std::string text;
  if (result.same()) {
    text = fmt::format("{}: {} steps, {} events, digest {:016x}: as recorded\n{}",
                       output::printable(options.file), result.steps, result.events, result.digest,
                       journal_end_text(journal));
  } else {
    text = fmt::format("{}: not as recorded; {}\n", output::printable(options.file), result.report);
    if (journal.header().version != BATCHFLOW_VERSION)
      text +=
          fmt::format("version {} recorded it, and this is {}: what is decided may have changed\n",
                      output::printable(journal.header().version), BATCHFLOW_VERSION);
  }
  options.outputs.write_text(text);
  return result.same() ? 0 : 1;
}

}  // namespace

void add_journal_command(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("journal", "What a run has recorded: replay it, or ask what if");
  command->require_subcommand(1);
  CLI::App* replaying = command->add_subcommand(
      "replay", "Decide a recorded run once more, and say where the commands first differ");
  const auto options = std::make_shared<JournalOptions>();
  replaying
      ->add_option("FILE", options->file,
                   "What `batchflowd --journal` or `batchflow-sim run --journal FILE` has written")
      ->required();
  replaying->add_flag("--explain", options->explain,
                      "Print each decision of a policy (?), with its time and its numbers; of "
                      "memory, what was expected and what came of it");
  options->outputs.add(*replaying, "json", "JSON");
  replaying->callback(
      [options, &action] { action = [options] { return replay_and_report(*options); }; });
  add_journal_whatif(*command, action);
  replaying->footer(
      "Exit codes: 0 the same commands, 1 others (the first difference is printed), 2 a file that "
      "cannot be read.\n"
      "Example:\n"
      "  batchflow-sim journal replay /var/lib/batchflow/journal");
}

}  // namespace batchflow::sim
