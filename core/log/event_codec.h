// Events and commands in writing: as bytes for the journal, as text for people (explanations,
// logs, the first difference of a replay), and as one number that is equal for equal runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/arena.h"
#include "core/base/types.h"
#include "core/engine/event.h"
#include "core/order/position.h"

namespace batchflow::log {

// Writes one engine step, `(now, events)`, as bytes. A time is stored as the difference from the
// step before. So an encoder and a decoder belong to one log each, and see all of its steps in
// order.
class EventEncoder {
 public:
  // Appends the step to `out`.
  void step(Instant now, std::span<const engine::Event> events, std::vector<std::byte>& out);

 private:
  Instant last_{};
};

class EventDecoder {
 public:
  struct EngineStep {
    Instant now;
    std::span<const engine::Event> events;
  };

  // The step that these bytes hold; nullopt when they are not exactly one. What it refers to lives
  // in the decoder until the next call.
  std::optional<EngineStep> step(std::span<const std::byte> bytes);

 private:
  Instant last_{};
  Arena arena_;
  std::deque<order::Position> positions_;
  std::vector<engine::Event> events_;
};

// Commands, as they go to another machine: each list stands alone.
void encode(std::span<const engine::Command> commands, std::vector<std::byte>& out);

class CommandDecoder {
 public:
  // The commands that these bytes hold; nullopt when they are not a list of commands. What they
  // refer to lives in the decoder until the next call.
  std::optional<std::span<const engine::Command>> commands(std::span<const std::byte> bytes);

 private:
  Arena arena_;
  std::deque<order::Position> positions_;  // of no command
  std::vector<engine::Command> commands_;
};

// `BatchConsumed job=3 rank=0 step=17 compute=0.250000000s`. A list is cut after eight entries, and
// its length is printed.
std::string describe(const engine::Event& event);
std::string describe(const engine::Command& command);

// Computed from contents, not addresses: a list counts by its entries.
std::uint64_t digest(const engine::Command& command);

// One number for all commands of an engine, which a run prints at its end. It covers the commands
// of all engine steps, in order, and where each step ends.
class CommandDigest {
 public:
  void add(std::span<const engine::Command> commands);
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

}  // namespace batchflow::log
