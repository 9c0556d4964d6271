#include "runtime/feeds/kafka_library.h"

#include <dlfcn.h>

#include <type_traits>

#include "runtime/failpoint/failpoint.h"

namespace batchflow::feeds {
namespace {

struct Found {
  KafkaLibrary library{};
  std::string problem;
};

Found load() {
  Found found;
  void* const handle = ::dlopen("librdkafka.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    found.problem = "librdkafka is not installed (apt-get install librdkafka1)";
    return found;
  }
  const auto take = [&](auto& function, const char* name) {
    void* const symbol = ::dlsym(handle, name);
    if (symbol == nullptr) found.problem = std::string("librdkafka is too old: it has no ") + name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  KafkaLibrary& one = found.library;
  take(one.conf_new, "rd_kafka_conf_new");
  take(one.conf_destroy, "rd_kafka_conf_destroy");
  take(one.conf_set, "rd_kafka_conf_set");
  take(one.conf_set_log_cb, "rd_kafka_conf_set_log_cb");
  take(one.conf_set_error_cb, "rd_kafka_conf_set_error_cb");
  take(one.conf_set_opaque, "rd_kafka_conf_set_opaque");
  take(one.create, "rd_kafka_new");
  take(one.destroy_flags, "rd_kafka_destroy_flags");
  take(one.topic_new, "rd_kafka_topic_new");
  take(one.topic_destroy, "rd_kafka_topic_destroy");
  take(one.metadata, "rd_kafka_metadata");
  take(one.metadata_destroy, "rd_kafka_metadata_destroy");
  take(one.places_new, "rd_kafka_topic_partition_list_new");
  take(one.places_add, "rd_kafka_topic_partition_list_add");
  take(one.places_set_offset, "rd_kafka_topic_partition_list_set_offset");
  take(one.places_destroy, "rd_kafka_topic_partition_list_destroy");
  take(one.assign, "rd_kafka_assign");
  take(one.poll_set_consumer, "rd_kafka_poll_set_consumer");
  take(one.consumer_poll, "rd_kafka_consumer_poll");
  take(one.message_destroy, "rd_kafka_message_destroy");
  take(one.message_timestamp, "rd_kafka_message_timestamp");
  take(one.error_text, "rd_kafka_err2str");
  return found;
}

}  // namespace

const KafkaLibrary* KafkaLibrary::find(std::string& problem) {
  static const Found found = load();
  problem = BF_FAILPOINT("feed.kafka.library") ? "librdkafka is not installed" : found.problem;
  return problem.empty() ? &found.library : nullptr;
}

}  // namespace batchflow::feeds
