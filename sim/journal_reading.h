// Reads the journal that a command is given, and says how it ends.
#pragma once

#include <string>
#include <vector>

#include "core/log/journal.h"
#include "programs/input/journal_workload.h"

namespace batchflow::sim {

// Throws ConfigError for what is no file, or too large.
std::vector<char> read_journal(const std::string& path);

// For people, once all of it was read; empty for a journal that was closed.
std::string journal_end_text(const log::JournalReader& journal);
// `closed`, `at_bound` or `none`, as in JSON.
const char* journal_end_name(const log::JournalReader& journal);

// A run that was recorded, as far as its journal is whole. Shows a bar of progress. Throws
// ConfigError where nothing of it is whole.
struct RecordedJournal {
  input::RecordedRun run;
  std::string end;  // for people; empty: it was closed
  const char* end_name = "";
};
RecordedJournal read_recorded_journal(const std::string& file);

}  // namespace batchflow::sim
