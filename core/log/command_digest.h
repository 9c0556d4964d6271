// One number for all commands of an engine: equal for equal runs, printed at the end of each.
#pragma once

#include <cstdint>
#include <span>

#include "core/engine/event.h"

namespace batchflow::log {

// Computed from contents, not addresses: a list counts by its entries.
std::uint64_t digest(const engine::Command& command);

// Covers the commands of all engine steps, in order, and where each step ends.
class CommandDigest {
 public:
  void add(std::span<const engine::Command> commands);
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

}  // namespace batchflow::log
