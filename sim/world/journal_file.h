// Writes the journal of a run to a file, if one was asked for. It begins with the first step.
#pragma once

#include <optional>
#include <string>

#include "core/log/journal.h"
#include "sim/world/run_file.h"

namespace batchflow::world {

class JournalFile {
 public:
  // `path` empty: nothing is recorded.
  JournalFile(const std::string& path, const log::JournalHeader& header,
              const engine::Catalogues& catalogues, Bytes bytes_max);

  // Records the events of a step; they are in the file before this returns.
  void record_events(Instant now, std::span<const engine::Event> events);
  void record_commands(std::span<const engine::Command> commands);
  void close();

 private:
  void write();

  RunFile file_;
  std::optional<log::Journal> journal_;
};

}  // namespace batchflow::world
