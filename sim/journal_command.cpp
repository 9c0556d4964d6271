// batchflow-sim journal replay: decides a recorded run, simulated or live, once more.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
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

namespace batchflow::sim {
namespace {

struct JournalOptions {
  std::string file;
  bool explain = false;
  output::OutputFlags outputs;
};

std::vector<char> read_journal(const std::string& path) {
  constexpr std::uintmax_t kMost = std::uintmax_t{8} << 30;  // eight times the default bound
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(path, error);
  const std::uintmax_t size = is_file ? std::filesystem::file_size(path, error) : 0;
  if (is_file && size > kMost)
    throw ConfigError(
        fmt::format("{}: {} bytes, and {} are the most that is read", path, size, kMost));
  std::vector<char> bytes(static_cast<std::size_t>(error ? 0 : size));
  std::ifstream file(path, std::ios::binary);
  if (!is_file || error || !file)
    throw ConfigError(
        fmt::format("{}: cannot be read; name a file that `batchflowd --journal` or "
                    "`batchflow-sim run --journal FILE` has written",
                    path));
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

std::string end_text(const log::JournalReader& journal) {
  switch (journal.end()) {
    case log::LogEnd::closed:
      return "";
    case log::LogEnd::at_bound:
      return "the journal ends at its bound in bytes; what came after was not recorded\n";
    case log::LogEnd::none:
      break;
  }
  return fmt::format(
      "the journal has no end: its writer died, or still writes ({} bytes of a last step are "
      "left "
      "out); the commands of the last whole step were not recorded and are not compared\n",
      journal.bytes_cut());
}

std::string json_text(const std::string& file, const log::JournalReader& journal,
                      const log::ReplayResult& result) {
  constexpr const char* kEnds[] = {"none", "closed", "at_bound"};
  nlohmann::ordered_json all = {{"command", "journal replay"},
                                {"version", BATCHFLOW_VERSION},
                                {"file", file},
                                {"recorded_by", journal.header().version},
                                {"seed", journal.header().seed},
                                {"same", result.same()},
                                {"digest", fmt::format("{:016x}", result.digest)},
                                {"steps", result.steps},
                                {"events", result.events},
                                {"end", kEnds[static_cast<int>(journal.end())]},
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
                       end_text(journal));
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
  CLI::App* command = app.add_subcommand("journal", "Replay what a run has recorded");
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
  command->footer(
      "Exit codes: 0 the same commands, 1 others (the first difference is printed), 2 a file that "
      "cannot be read.\n"
      "Example:\n"
      "  batchflow-sim journal replay /var/lib/batchflow/journal");
}

}  // namespace batchflow::sim
