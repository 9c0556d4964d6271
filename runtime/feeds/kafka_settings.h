// What a feed tells librdkafka beside what it sets itself, such as passwords and TLS: a file of
// `name=value` lines, as in Kafka's `client.properties`.
//
// Each line is given to librdkafka as it is. A line is refused if it would undo what the feed
// relies on, load code into the service or run a command in it. Nothing here says a value, as it
// may be secret.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/feeds/feed_settings.h"

namespace batchflow::feeds {

inline constexpr std::size_t kKafkaSettingsMost = std::size_t{64} << 10;  // bytes of the file

struct KafkaSetting {
  std::string name, value;
  std::size_t line = 0;  // of the file, from 1 on
};

// Takes the lines of a file. Answers what is wrong, beginning with `path` and the number of the
// line; empty: nothing.
std::string parse_kafka_settings(std::string_view text, std::string_view path,
                                 std::vector<KafkaSetting>& all);
// Reads the file that the feed in the folder names; no settings where it names none. Answers what
// is wrong, also where the feed may not use the file; empty: nothing.
std::string read_kafka_settings(const std::string& folder, const FeedSettings& feed,
                                std::vector<KafkaSetting>& all);

}  // namespace batchflow::feeds
