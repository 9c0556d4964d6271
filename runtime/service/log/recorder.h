// The events of the engine and its commands: always a digest of all commands, and, if asked for, a
// journal in a file, from which `batchflow-sim journal replay` makes the same run.
//
// It wraps around Engine::step: record_events() before it, record_commands() after it. A journal
// that cannot be written ends, and its service goes on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "core/log/event_codec.h"
#include "core/log/journal.h"
#include "runtime/service/log/log_file.h"

namespace batchflow::engine {
struct EngineConfig;
}

namespace batchflow::service {

struct JournalState {
  bool is_kept = false;    // else there is no journal
  bool has_ended = false;  // at its bound, or the disk was full
  std::string path;
  Bytes bytes = 0;
  std::uint64_t steps = 0;
  std::uint64_t events = 0;
};

class Recorder {
 public:
  // Begins a journal at `path`; the previous one is kept beside it as `journal.before`. Throws
  // ConfigError.
  void open(const std::filesystem::path& path, const engine::EngineConfig& config,
            const engine::Catalogues& catalogues);

  // The events are in the file before this returns, so that events that make the step crash are
  // there, too.
  void record_events(Instant now, std::span<const engine::Event> events);
  void record_commands(std::span<const engine::Command> commands);
  // As the functions of log::Journal.
  void record_policies(std::span<const std::byte> description);
  void record_answers(std::span<const std::byte> answers);
  // Writes the end mark.
  void close();

  std::uint64_t steps() const { return steps_; }
  std::uint64_t events() const { return events_; }
  std::uint64_t digest() const { return digest_.value(); }
  JournalState state() const;
  // Writes all of the journal to the disk. Empty: done; else why not.
  std::string flush();
  // Why the journal has ended before its time: once, then empty.
  std::string take_problem();

 private:
  bool recorded() const { return journal_ && journal_->recorded(); }
  void write();
  bool say_if_ended();  // the journal is no longer written

  LogFile file_;
  std::optional<log::Journal> journal_;
  log::CommandDigest digest_;
  std::uint64_t steps_ = 0;
  std::uint64_t events_ = 0;
  JournalState state_;
  std::string problem_;
};

}  // namespace batchflow::service
