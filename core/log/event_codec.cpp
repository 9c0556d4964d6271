#include "core/log/event_codec.h"

#include <array>
#include <utility>
#include <variant>

#include "core/log/field_codec.h"

namespace batchflow::log {

namespace {

using TakeEvent = engine::Event (*)(FieldReader&);

template <std::size_t index>
engine::Event take_event(FieldReader& reader) {
  std::variant_alternative_t<index, engine::Event> event{};
  reader.take(event);
  return event;
}

// One function for each alternative, by its index.
template <std::size_t... index>
constexpr std::array<TakeEvent, sizeof...(index)> take_functions(std::index_sequence<index...>) {
  return {take_event<index>...};
}
constexpr auto kTake =
    take_functions(std::make_index_sequence<std::variant_size_v<engine::Event>>());

// Unsigned, so that a difference of any two times does not overflow.
std::uint64_t count_of(Instant instant) {
  return static_cast<std::uint64_t>(instant.time_since_epoch().count());
}

}  // namespace

void EventEncoder::step(Instant now, std::span<const engine::Event> events,
                        std::vector<std::byte>& out) {
  FieldWriter writer(out);
  writer.put(Duration(static_cast<std::int64_t>(count_of(now) - count_of(last_))));
  last_ = now;
  for (const engine::Event& event : events) {
    writer.count(event.index());
    std::visit([&](const auto& fields) { writer.put(fields); }, event);
  }
}

std::optional<EventDecoder::Step> EventDecoder::step(std::span<const std::byte> bytes) {
  arena_.clear();
  positions_.clear();
  events_.clear();
  FieldReader reader(bytes, arena_, positions_);
  Duration since_last{};
  reader.take(since_last);
  while (reader.ok() && !reader.at_end()) {
    events_.push_back(kTake[reader.count(kTake.size() - 1)](reader));
  }
  if (!reader.ok()) return std::nullopt;
  const auto now = count_of(last_) + static_cast<std::uint64_t>(since_last.count());
  last_ = Instant(Duration(static_cast<std::int64_t>(now)));
  return Step{last_, events_};
}

}  // namespace batchflow::log
