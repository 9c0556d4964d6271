// The first frame of a producer to a feed, as JSON (runtime/protocol/feed_wire.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace batchflow::protocol {

// The most bytes of a producer's name, and of a schema. A partition of a topic of Kafka has a name
// of up to 259.
inline constexpr std::size_t kFeedTextMost = 512;

struct FeedHello {
  std::string producer;  // a name
  std::string schema;    // what its records are
  bool waits = true;     // it can wait where the feed has no room
  // A random number for the producer's process. A new connection with the same number takes the
  // place of the old one, which the feed may not yet know to be lost. 0: the old one stays.
  std::uint64_t instance = 0;
  bool counts = false;  // it asks what becomes of its records
};

std::string encode(const FeedHello& hello);
// Empty, or what is wrong with its texts.
std::string problem_of(const FeedHello& hello);
// Empty, with the reason in `problem`, for what is none.
std::optional<FeedHello> feed_hello_from(std::string_view text, std::string& problem);

// The time of day, since producers may be anywhere. It goes into records, and says which are late;
// nothing that the engine decides depends on it.
inline std::int64_t record_time_ns() {
  using TimeOfDay = std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(TimeOfDay::now().time_since_epoch())
      .count();
}

}  // namespace batchflow::protocol
