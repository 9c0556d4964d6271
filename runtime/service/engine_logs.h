// What is written while the engine runs: its promises always, and what it is told on wish.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/engine.h"
#include "core/journal.h"
#include "core/promise_log.h"
#include "runtime/protocol/descriptor.h"
#include "runtime/service/node_config.h"

namespace batchflow {

// A file that grows by what is appended.
class LogFile {
 public:
  bool open(const std::filesystem::path& path);
  bool append(std::span<const std::byte> bytes);
  Bytes bytes() const { return bytes_; }  // that were appended
  bool sync() const;

 private:
  Descriptor file_;
  Bytes bytes_ = 0;
};

struct JournalState {
  bool is_kept = false;
  bool has_ended = false;  // at its bound, or the disk was full
  std::string path;
  Bytes bytes = 0;
  std::uint64_t steps = 0;
  std::uint64_t events = 0;
};

class EngineLogs {
 public:
  using Say = std::function<void(const std::string& line)>;

  // Opens the files below `config.state`. Throws ConfigError.
  EngineLogs(const NodeConfig& config, Say say);

  // Around each step of the engine.
  void stepping(Instant now, std::span<const Event> events);
  void stepped(std::span<const Command> commands, std::span<const Promise> promises);

  // What people ask about the journal.
  JournalState journal() const;
  // Empty when all of the journal is on disk, or why not.
  std::string flush_journal();

 private:
  void write_journal();
  void write_promises();

  const std::filesystem::path folder_;
  Say say_;
  std::unique_ptr<Journal> journal_;
  LogFile journal_file_;
  const bool journal_wanted_;
  std::uint64_t journal_events_ = 0;
  PromiseLog promise_log_;
  LogFile promise_file_;
};

}  // namespace batchflow
