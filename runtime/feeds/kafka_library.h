// The functions of librdkafka that feeds use. The library is looked for while the program runs, so
// no build needs it or its headers. The declarations are those of its stable interface
// (librdkafka.so.1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace batchflow::feeds {

struct KafkaLibrary {
  struct Client;
  struct Settings;
  struct Topic;
  struct Places;  // partitions with offsets
  struct Message {
    int error;
    Topic* topic;
    std::int32_t partition;
    void* payload;
    std::size_t bytes;
    void* key;
    std::size_t key_bytes;
    std::int64_t offset;
    void* own;
  };
  struct TopicMetadata {
    char* topic;
    int partitions;
    void* partition_list;
    int error;
  };
  struct Metadata {
    int brokers;
    void* broker_list;
    int topics;
    TopicMetadata* topic_list;
  };
  static constexpr int kConsumer = 1;            // RD_KAFKA_CONSUMER
  static constexpr int kSet = 0;                 // RD_KAFKA_CONF_OK
  static constexpr int kDestroyAtOnce = 0x8;     // RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE
  static constexpr std::size_t kTextMost = 512;  // of a reason

  // The library of this process, with the reason in `problem` where there is none.
  static const KafkaLibrary* find(std::string& problem);

  Settings* (*conf_new)();
  void (*conf_destroy)(Settings*);
  int (*conf_set)(Settings*, const char* name, const char* value, char* why, std::size_t most);
  void (*conf_set_log_cb)(Settings*, void (*)(const Client*, int, const char*, const char*));
  void (*conf_set_error_cb)(Settings*, void (*)(Client*, int error, const char* text, void* own));
  void (*conf_set_opaque)(Settings*, void* own);
  Client* (*create)(int type, Settings*, char* why, std::size_t most);
  void (*destroy_flags)(Client*, int flags);
  Topic* (*topic_new)(Client*, const char* name, void* none);
  void (*topic_destroy)(Topic*);
  int (*metadata)(Client*, int all, Topic* only, const Metadata** out, int timeout_ms);
  void (*metadata_destroy)(const Metadata*);
  Places* (*places_new)(int size);
  void* (*places_add)(Places*, const char* topic, std::int32_t partition);
  int (*places_set_offset)(Places*, const char* topic, std::int32_t partition, std::int64_t offset);
  void (*places_destroy)(Places*);
  int (*assign)(Client*, const Places*);
  int (*poll_set_consumer)(Client*);
  Message* (*consumer_poll)(Client*, int timeout_ms);
  void (*message_destroy)(Message*);
  std::int64_t (*message_timestamp)(const Message*, int* kind);
  const char* (*error_text)(int error);
};

}  // namespace batchflow::feeds
