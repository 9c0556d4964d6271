// What a feed is: the file `feed.json` in its folder. `batchflowctl feed create` writes it.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/base/types.h"
#include "runtime/batch/batch_spec.h"
#include "runtime/protocol/feed_socket.h"

namespace batchflow::feeds {

// The name of that file.
inline constexpr std::string_view kSettingsFile = protocol::kFeedSettings;

// What is wrong with a feed, and what to do about it.
class FeedError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct FeedSettings {
  std::uint64_t id = 0;  // no two feeds have the same one; the dataset's version follows from it
  // What a record is: `bytes` (a picture, or anything that a pipeline decodes), or numbers, such as
  // `f32[16]` or `u8[224,224,3]`.
  std::string schema = "bytes";
  Bytes record_bytes = 1 << 20;  // the most that a record may have; of numbers, what each has
  bool labelled = false;         // records have classes
  Bytes keep_bytes = Bytes{1} << 30;
  Bytes segment_bytes = 0;  // of a file of the log; 0: an eighth of what is kept
  // A record that is so much older than the newest one is late: it is counted and left out.
  Duration late_after{0};  // 0: none is
  // It takes the records of this topic of Kafka, beside those of other producers; empty: none.
  std::string kafka_brokers, kafka_topic;  // HOST:PORT[,HOST:PORT...]
  // The file that says more to librdkafka (kafka_settings.h); empty: none. Each service that has
  // the feed reads it at its own node.
  std::string kafka_settings;
  // The user who alone may write the settings, once they are read; none: others may, too.
  std::optional<std::uint32_t> sole_writer;
  friend bool operator==(const FeedSettings&, const FeedSettings&) = default;
};

// The fields of a batch of records as they are stored; none for `bytes`. Throws FeedError for a
// schema that cannot be.
batch::BatchSpec fields_of(const FeedSettings& settings);
// Completes what follows from the rest. Throws FeedError where it does not fit together.
void complete(FeedSettings& settings);
// `BROKERS/TOPIC`. Throws FeedError.
void set_kafka(FeedSettings& settings, std::string_view text);
// The path of a file, from / on. Throws FeedError, also where the feed has no topic.
void set_kafka_settings(FeedSettings& settings, std::string_view path);
std::string to_json(const FeedSettings& settings);
// Throws FeedError, which calls the settings `name`.
FeedSettings settings_from_json(std::string_view text, std::string_view name);
// Of its dataset: it names the feed, not what is in it.
Digest version_of(const FeedSettings& settings);
// Whether the folder is one of a feed: it has that file.
bool is_feed(const std::string& folder);
// Reads the file in the folder. Throws FeedError.
FeedSettings read_settings(const std::string& folder);
// Makes the folder, if need be, and its file. Throws FeedError, also where a feed is there already.
void create_feed(const std::string& folder, FeedSettings settings);

}  // namespace batchflow::feeds
