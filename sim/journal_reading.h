// A journal as a command is given it: read from its file, and what is said of how it ends.
#pragma once

#include <string>
#include <vector>

#include "core/log/journal.h"

namespace batchflow::sim {

// Throws ConfigError for what is no file, or too large.
std::vector<char> read_journal(const std::string& path);

// For people, once all of it was read; empty for a journal that was closed.
std::string journal_end_text(const log::JournalReader& journal);
// `closed`, `at_bound` or `none`, as in JSON.
const char* journal_end_name(const log::JournalReader& journal);

}  // namespace batchflow::sim
