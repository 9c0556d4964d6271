// Sends the records of a topic of Kafka to a feed.
//
// To the feed, each partition is a producer. A record's sequence is its offset plus one. So the
// feed's own log says where to go on, and a record comes once; Kafka keeps no offsets for the feed.
// A record that is not acknowledged is in Kafka alone. Where the feed has no room, the source
// waits.
//
// The feed's file of Kafka's settings is read whenever the source begins anew. While it gets
// nowhere it does so every few seconds, so a file with a new password counts.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/feeds/feed_settings.h"

namespace batchflow::feeds {

class KafkaSource {
 public:
  // Called by the source's thread, once for each change: what holds it up now; empty: nothing.
  using Changed = std::function<void(const std::string& problem)>;

  // REQUIRES: the feed in the folder is served, and its settings name a topic
  KafkaSource(std::string folder, FeedSettings settings, Changed changed);
  ~KafkaSource();
  KafkaSource(const KafkaSource&) = delete;
  KafkaSource& operator=(const KafkaSource&) = delete;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace batchflow::feeds
