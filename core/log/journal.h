// The trace journal: every `(now, events)` that a run's engine was given, and a digest of the
// commands it answered, so that the run can be repeated and compared bit for bit.
//
// A Journal wraps around Engine::step: call record_events() with a step's input before the engine
// sees it, and record_commands() with the commands it answered. The bytes that are in pending() by
// then must be on their way to a file before the commands are carried out. At its bound in bytes
// the journal ends with a mark. The run goes on: recorded() becomes false, and the digest still
// covers everything.
//
// A journal needs no other file. Its header has the engine's configuration. What an event refers to
// in Catalogues is written before the first step that refers to it, as far as the engine uses it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/engine/catalogue.h"
#include "core/log/event_codec.h"
#include "core/log/frame_log.h"

namespace batchflow::log {

// What a replay needs to know before the first event.
struct JournalHeader {
  std::uint64_t seed = 0;     // of the run, for people
  std::string configuration;  // of the engine (programs/config/engine_settings.h)
  std::string version;        // of the program, for people
  friend bool operator==(const JournalHeader&, const JournalHeader&) = default;
};

class Journal {
 public:
  // `catalogues` are those of the engine.
  Journal(const JournalHeader& header, const engine::Catalogues& catalogues, Bytes bytes_max);

  void record_events(Instant now, std::span<const engine::Event> events);
  void record_commands(std::span<const engine::Command> commands);
  // Policies that decide in another process, before the first step that names them, and what they
  // answered in the step that was recorded last (policies/apart).
  void record_policies(std::span<const std::byte> description);
  void record_answers(std::span<const std::byte> answers);
  void close();  // the end mark; nothing may be recorded after it

  // The bytes to write since the last clear_pending(), in order.
  std::span<const std::byte> pending() const { return pending_; }
  void clear_pending() { pending_.clear(); }

  bool recorded() const { return !frames_.ended(); }
  std::uint64_t steps() const { return steps_; }
  std::uint64_t digest() const { return digest_.value(); }

 private:
  void record_catalogues(std::span<const engine::Event> events);
  void record_bytes(std::uint8_t kind, std::span<const std::byte> bytes);
  void append();  // payload_, as a frame

  const engine::Catalogues& catalogues_;
  std::set<std::pair<const void*, std::uint32_t>> recorded_;  // of these, by id
  std::vector<std::byte> pending_;
  FrameWriter frames_;
  EventEncoder encoder_;
  CommandDigest digest_;
  std::vector<std::byte> payload_;
  std::uint64_t steps_ = 0;
};

// Reads a journal, step by step.
class JournalReader {
 public:
  static constexpr std::uint32_t kVersion = 13;

  // Throws ConfigError when this is not a journal of this version.
  JournalReader(std::span<const std::byte> log, std::string_view name);

  // False when the journal was cut before its header was whole; then there are no steps.
  bool has_header() const { return frames_.has_header(); }
  const JournalHeader& header() const { return header_; }
  // What the events so far refer to: for the engine that they are replayed into.
  const engine::Catalogues& catalogues() const { return catalogues_; }

  struct EngineStep {
    Instant now;
    std::span<const engine::Event> events;  // until the next call
    std::uint32_t digest_before;            // low half of the digest of all commands so far
    std::span<const std::byte> answers;     // of policies in other processes
  };
  // nullopt after the last one. Throws ConfigError where the journal is damaged.
  std::optional<EngineStep> next();

  // What was recorded of policies in other processes, up to the step that was read last.
  std::span<const std::span<const std::byte>> described() const { return described_; }

  // After the last step: how it ends, and the whole digest if it has an end mark.
  LogEnd end() const { return frames_.end(); }
  Bytes bytes_cut() const { return frames_.bytes_cut(); }
  std::optional<std::uint64_t> final_digest() const;

 private:
  FrameReader frames_;
  JournalHeader header_;
  engine::Catalogues catalogues_;
  EventDecoder decoder_;
  std::vector<std::span<const std::byte>> described_;
  // The payload of a frame that was read behind the last step, and is not the answers of that step.
  std::optional<std::span<const std::byte>> read_ahead_;
};

// Engine::step of the engine that a journal is replayed into.
using StepFunction =
    std::function<std::span<const engine::Command>(const JournalReader::EngineStep& step)>;

struct ReplayResult {
  std::uint64_t steps = 0;
  std::uint64_t events = 0;
  std::uint64_t digest = 0;
  // The first step, from 0, that has other commands than in the recorded run, and a report of it.
  std::optional<std::uint64_t> first_difference;
  std::string report;
  bool same() const { return !first_difference; }
};

// Feeds a new engine the steps of the journal.
ReplayResult replay(JournalReader& journal, const StepFunction& step);

}  // namespace batchflow::log
