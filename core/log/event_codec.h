// One engine step, `(now, events)`, as bytes: the content of the trace journal.
//
// A time is stored as the difference from the step before. So an encoder and a decoder belong to
// one log each, and see all of its steps in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "core/base/arena.h"
#include "core/base/types.h"
#include "core/engine/event.h"
#include "core/order/position.h"

namespace batchflow::log {

class EventEncoder {
 public:
  // Appends the step to `out`.
  void step(Instant now, std::span<const engine::Event> events, std::vector<std::byte>& out);

 private:
  Instant last_{};
};

class EventDecoder {
 public:
  struct Step {
    Instant now;
    std::span<const engine::Event> events;
  };

  // The step that these bytes hold; nullopt when they are not exactly one. What it refers to lives
  // in the decoder until the next call.
  std::optional<Step> step(std::span<const std::byte> bytes);

 private:
  Instant last_{};
  Arena arena_;
  std::deque<order::Position> positions_;
  std::vector<engine::Event> events_;
};

}  // namespace batchflow::log
