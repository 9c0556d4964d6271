// What producers and a feed say to each other on a stream socket (docs/live.md).
//
//   frame  := length of the rest (4 bytes), which is above 0, kind (1), the rest
//   hello   : JSON: the producer's name, the schema that it sends, whether it can wait
//   welcome : sequence (8): of its last record that is durable; the most bytes of a record (4);
//             FeedCounts, where the hello asks for them
//   record  : sequence (8), key (8), time in ns (8), class (4), the sample's bytes
//   end     : no more records will come, from any producer
//   ack     : sequence (8): records up to it are durable, or were counted as left out; flags (1);
//             FeedCounts, where the hello asks for them
//   refused : why, as a text; then the feed closes the connection
//
// Numbers are little-endian. Sequences of a producer are above 0 and grow. By its sequence a feed
// tells a record that is sent again from a new one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace batchflow::protocol {

enum class FeedFrame : std::uint8_t { hello = 1, welcome, record, end, ack, refused };

// No record has more bytes, whatever a feed allows.
inline constexpr std::uint32_t kFeedRecordMost = 1u << 28;
inline constexpr std::size_t kFeedRecordHead = 28;  // beside the sample's bytes
inline constexpr std::size_t kFeedHelloMost = 65'536;
inline constexpr std::size_t kFeedLength = 4;
inline constexpr std::uint8_t kFeedWaits = 1;  // of an ack: the producer is to wait
inline constexpr std::uint8_t kFeedEnded = 2;  // the end is durable

struct FeedRecordHead {
  std::uint64_t sequence = 0;
  std::uint64_t key = 0;
  std::int64_t time_ns = 0;
  std::int32_t label = -1;  // -1: none
};

// What became of a producer's records while this service has the feed, at least of all that are
// acknowledged.
struct FeedCounts {
  std::uint64_t service = 0;  // a number by chance: another service has another, and counts from 0
  std::uint64_t taken = 0;
  std::uint64_t late = 0;
  std::uint64_t thinned = 0;
  std::uint64_t malformed = 0;
};
inline constexpr std::size_t kFeedCounts = 40;

template <class T>
void put_feed(T value, std::vector<std::byte>& out) {
  static_assert(std::is_integral_v<T>);
  std::byte bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}
// REQUIRES: at least sizeof(T) bytes
template <class T>
T take_feed(std::span<const std::byte>& from) {
  T value{};
  std::memcpy(&value, from.data(), sizeof value);
  from = from.subspan(sizeof value);
  return value;
}

inline void put_feed_frame(FeedFrame kind, std::size_t rest, std::vector<std::byte>& out) {
  put_feed(static_cast<std::uint32_t>(1 + rest), out);
  put_feed(static_cast<std::uint8_t>(kind), out);
}
inline void put_feed_text(FeedFrame kind, std::string_view text, std::vector<std::byte>& out) {
  put_feed_frame(kind, text.size(), out);
  const auto bytes = std::as_bytes(std::span(text));
  out.insert(out.end(), bytes.begin(), bytes.end());
}
inline void put_feed_record(const FeedRecordHead& head, std::span<const std::byte> bytes,
                            std::vector<std::byte>& out) {
  put_feed_frame(FeedFrame::record, kFeedRecordHead + bytes.size(), out);
  put_feed(head.sequence, out);
  put_feed(head.key, out);
  put_feed(head.time_ns, out);
  put_feed(head.label, out);
  out.insert(out.end(), bytes.begin(), bytes.end());
}
inline void put_feed_counts(const FeedCounts& counts, std::vector<std::byte>& out) {
  for (const std::uint64_t one :
       {counts.service, counts.taken, counts.late, counts.thinned, counts.malformed})
    put_feed(one, out);
}
// REQUIRES: from.size() >= kFeedCounts
inline FeedCounts take_feed_counts(std::span<const std::byte>& from) {
  FeedCounts counts;
  for (std::uint64_t* const one :
       {&counts.service, &counts.taken, &counts.late, &counts.thinned, &counts.malformed})
    *one = take_feed<std::uint64_t>(from);
  return counts;
}
// REQUIRES: rest.size() >= kFeedRecordHead; what follows are the sample's bytes
inline FeedRecordHead take_feed_record(std::span<const std::byte>& rest) {
  FeedRecordHead head;
  head.sequence = take_feed<std::uint64_t>(rest);
  head.key = take_feed<std::uint64_t>(rest);
  head.time_ns = take_feed<std::int64_t>(rest);
  head.label = take_feed<std::int32_t>(rest);
  return head;
}

}  // namespace batchflow::protocol
