// The trace journal of a run on its way to a file, if one was asked for. A file that cannot be
// written to its end (OutputError) is removed.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "core/journal.h"

namespace batchflow::sim {

class JournalFile {
 public:
  // `path` empty: nothing is recorded. Throws ConfigError when the file cannot be written.
  JournalFile(const std::string& path, const JournalHeader& header, Bytes bytes_max);

  // What a step was given; in the file before this returns.
  void record(Instant now, std::span<const Event> events);
  void ordered(std::span<const Command> commands);
  void close();

 private:
  void write();
  [[noreturn]] void fail(int error);

  struct Closes {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Closes> file_;
  std::optional<Journal> journal_;
};

}  // namespace batchflow::sim
