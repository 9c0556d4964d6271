// The last events that the engine was told while a plugin ran, for the plugin's author.
//
// They are kept as bytes, so that a signal handler can write them to a file as they are. The next
// start makes text of that file.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/base/types.h"
#include "core/engine/event.h"

namespace batchflow::service {

class LastEvents {
 public:
  void add(Instant now, std::span<const engine::Event> events);
  // The events in order: first all of older(), then all of newer(). Together they fill at least
  // half of the memory, once that many came.
  std::span<const std::byte> older() const { return halves_[1 - at_]; }
  std::span<const std::byte> newer() const { return halves_[at_]; }
  std::string text() const;

 private:
  std::array<std::vector<std::byte>, 2> halves_;
  std::size_t at_ = 0;
  std::vector<std::byte> step_;  // scratch
};

// A line for each of the last events of `bytes`, with its time. What is cut is left out.
std::string events_text(std::span<const std::byte> bytes);

}  // namespace batchflow::service
