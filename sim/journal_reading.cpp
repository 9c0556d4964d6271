#include "sim/journal_reading.h"

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "core/base/config_value.h"
#include "policies/registry.h"
#include "programs/output/output.h"
#include "programs/output/terminal.h"
#include "sim/numbers.h"

namespace batchflow::sim {

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

std::string journal_end_text(const log::JournalReader& journal) {
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
      "left out); the commands of the last whole step were not recorded and are not compared\n",
      journal.bytes_cut());
}

const char* journal_end_name(const log::JournalReader& journal) {
  constexpr const char* kEnds[] = {"none", "closed", "at_bound"};
  return kEnds[static_cast<int>(journal.end())];
}

RecordedJournal read_recorded_journal(const std::string& file) {
  const std::vector<char> bytes = read_journal(file);
  log::JournalReader journal(std::as_bytes(std::span(bytes)), file);
  if (!journal.has_header())
    throw ConfigError(file + ": cut before its first step; there is nothing to take out of it");
  output::ProgressBar bar("reading the journal");
  std::uint64_t steps = 0;
  RecordedJournal read;
  read.run = input::read_recorded_run(journal, file, policies::policy_list(),
                                      [&](const log::JournalReader::EngineStep&) {
                                        output::check_interrupted();
                                        if ((++steps & 1023) == 0)
                                          bar.show(-1, fmt::format("{} steps", count_text(steps)));
                                      });
  if (read.run.differs) {
    read.end = fmt::format(
        "this version decides otherwise than {}, which recorded it, from step {} on; what came "
        "before is used\n",
        output::printable(read.run.recorded_by), read.run.steps);
    return read;
  }
  read.end = journal_end_text(journal);
  read.end_name = journal_end_name(journal);
  return read;
}

}  // namespace batchflow::sim
