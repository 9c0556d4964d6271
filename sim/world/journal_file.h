// Writes the trace journal of a run to a file, if one was asked for. It begins with the first step,
// so that a run that ends before it has no journal and keeps what was there. A file that cannot be
// written to its end (OutputError) is removed.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "core/log/journal.h"

namespace batchflow::world {

class JournalFile {
 public:
  // `path` empty: nothing is recorded.
  JournalFile(const std::string& path, const log::JournalHeader& header,
              const engine::Catalogues& catalogues, Bytes bytes_max);

  // Records the events of a step; they are in the file before this returns. Throws ConfigError when
  // there is no file yet and none can be made.
  void record_events(Instant now, std::span<const engine::Event> events);
  void record_commands(std::span<const engine::Command> commands);
  void close();

 private:
  void open();
  void write();
  [[noreturn]] void fail(int error);

  struct Closes {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Closes> file_;
  std::optional<log::Journal> journal_;
};

}  // namespace batchflow::world
