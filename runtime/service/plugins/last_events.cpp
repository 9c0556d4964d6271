#include "runtime/service/plugins/last_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "core/log/event_codec.h"

namespace batchflow::service {
namespace {

constexpr std::size_t kHalfMost = std::size_t{32} << 10;
constexpr std::size_t kOfStepMost = 100;
constexpr std::size_t kShownMost = 100;

}  // namespace

void LastEvents::add(Instant now, std::span<const engine::Event> events) {
  step_.clear();
  // Each step is read alone, so its time is written as a whole.
  log::EventEncoder().step(now, events.first(std::min(events.size(), kOfStepMost)), step_);
  const auto size = static_cast<std::uint32_t>(step_.size());
  if (size > kHalfMost) return;
  if (halves_[at_].size() + sizeof(size) + size > kHalfMost) {
    at_ = 1 - at_;
    halves_[at_].clear();
  }
  std::vector<std::byte>& half = halves_[at_];
  const auto* const begin = reinterpret_cast<const std::byte*>(&size);
  half.insert(half.end(), begin, begin + sizeof(size));
  half.insert(half.end(), step_.begin(), step_.end());
}

std::string LastEvents::text() const {
  std::vector<std::byte> all(older().begin(), older().end());
  all.insert(all.end(), newer().begin(), newer().end());
  return events_text(all);
}

std::string events_text(std::span<const std::byte> bytes) {
  std::vector<std::string> lines;
  std::uint32_t size = 0;
  while (bytes.size() >= sizeof(size)) {
    std::memcpy(&size, bytes.data(), sizeof(size));
    bytes = bytes.subspan(sizeof(size));
    if (size > bytes.size()) break;
    log::EventDecoder decoder;
    const auto step = decoder.step(bytes.first(size));
    bytes = bytes.subspan(size);
    if (!step) continue;
    const double at = std::chrono::duration<double>(step->now.time_since_epoch()).count();
    for (const engine::Event& event : step->events)
      lines.push_back(fmt::format("{:.6f} {}\n", at, log::describe(event)));
  }
  std::string text;
  for (std::size_t i = lines.size() - std::min(lines.size(), kShownMost); i < lines.size(); ++i)
    text += lines[i];
  return text;
}

}  // namespace batchflow::service
