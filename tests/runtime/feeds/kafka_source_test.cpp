// Records of topics of Kafka, from brokers that librdkafka plays in this process.
#include "runtime/feeds/kafka_source.h"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/feeds/feed_server.h"
#include "runtime/feeds/kafka_library.h"
#include "tests/runtime/feeds/feed_folder.h"
#include "tests/skip.h"
#include "tests/temporary_folder.h"

#if __has_include(<librdkafka/rdkafka_mock.h>)
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#define BATCHFLOW_KAFKA_HEADERS
#endif

namespace batchflow::test::kafka_source_test {
namespace {

using namespace std::chrono_literals;

feeds::FeedSettings settings_for(const std::string& kafka) {
  feeds::FeedSettings settings;
  settings.record_bytes = 1000;
  feeds::set_kafka(settings, kafka);
  return settings;
}

// A file of settings for Kafka, as its owner has it.
class SettingsFile {
 public:
  explicit SettingsFile(const std::string& text) { write(text); }
  const std::string& path() const { return path_; }
  void write(const std::string& text, mode_t mode = 0600) const {
    // A source that reads it meanwhile has either the old or the new one.
    const std::string written = folder_.file("new", text);
    REQUIRE(::chmod(written.c_str(), mode) == 0);
    std::filesystem::rename(written, path_);
  }
  feeds::FeedSettings settings_for_feed(const std::string& kafka) const {
    feeds::FeedSettings settings = settings_for(kafka);
    feeds::set_kafka_settings(settings, path_);
    return settings;
  }

 private:
  TemporaryFolder folder_;
  std::string path_ = (folder_ / "client.properties").string();
};

// A feed that takes the records of a topic.
struct Fed {
  FeedFolder folder;
  std::shared_ptr<feeds::FeedLog> log;
  std::unique_ptr<feeds::FeedServer> server;
  std::unique_ptr<feeds::KafkaSource> source;
  std::mutex mutex;
  std::vector<std::string> said;

  explicit Fed(const feeds::FeedSettings& settings) : folder(settings) {}
  ~Fed() { end(); }
  void begin() {
    log = folder.open();
    server = std::make_unique<feeds::FeedServer>(log, [](const feeds::FeedState&) {});
    source = std::make_unique<feeds::KafkaSource>(log->folder(), log->settings(),
                                                  [this](const std::string& problem) {
                                                    const std::lock_guard lock(mutex);
                                                    said.push_back(problem);
                                                  });
  }
  void end() {
    source.reset();
    server.reset();
    log.reset();
  }
  std::size_t times_said(const std::string& text) {
    const std::lock_guard lock(mutex);
    return static_cast<std::size_t>(std::count_if(
        said.begin(), said.end(), [&](const auto& one) { return one.find(text) != one.npos; }));
  }
  std::vector<std::string> records() const {
    std::vector<std::string> all;
    for (std::uint64_t n = log->first(); n < log->end_record(); ++n)
      all.push_back(record_text(*log, n));
    return all;
  }
};

}  // namespace

TEST_CASE("topics are named by their brokers") {
  CHECK(settings_for("a:9092,b:9092/clicks").kafka_brokers == "a:9092,b:9092");
  CHECK(settings_for("a:9092,b:9092/clicks").kafka_topic == "clicks");
  const feeds::FeedSettings settings = settings_for("a:9092/clicks");
  FeedFolder folder(settings);
  CHECK(feeds::read_settings(folder.path()).kafka_topic == "clicks");
  for (const char* wrong : {"", "a:9092", "/clicks", "a:9092/", "a:9092/two words"})
    CHECK_THROWS_AS(settings_for(wrong), feeds::FeedError);
}

TEST_CASE("without the library a feed with a topic says so once, and takes other records") {
  failpoint::configure_failpoints("feed.kafka.library=fail");
  Fed fed(settings_for("127.0.0.1:1/clicks"));
  fed.begin();
  CHECK(comes([&] { return fed.times_said("not installed") == 1; }));
  std::this_thread::sleep_for(700ms);  // it looks again, and says nothing
  CHECK(fed.times_said("") == 1);
  fed.end();
  failpoint::configure_failpoints("");
}

TEST_CASE("settings that the feed may not use are said, and are read anew") {
  std::string none;
  if (!feeds::KafkaLibrary::find(none)) return skipped("librdkafka is not installed");
  const SettingsFile file("# ours\ngroup.id=ours\n");
  Fed fed(file.settings_for_feed("127.0.0.1:1/clicks"));
  fed.begin();
  CHECK(comes([&] { return fed.times_said(file.path() + ":2: group.id may not stand") == 1; }));
  file.write("", 0644);
  CHECK(comes([&] { return fed.times_said(file.path() + ": others can read it") == 1; }));
  std::filesystem::remove(file.path());
  CHECK(comes([&] { return fed.times_said(file.path() + ": No such file") == 1; }));
  file.write("client.id=ours");
  CHECK(comes([&] { return fed.times_said("no broker of") == 1; }));
}

TEST_CASE("what the library says of its settings is said with their file and line") {
  std::string none;
  if (!feeds::KafkaLibrary::find(none)) return skipped("librdkafka is not installed");
  const SettingsFile file("client.id=ours\nssl.ca.locations=/ca.pem\n");
  Fed fed(file.settings_for_feed("127.0.0.1:1/clicks"));
  fed.begin();
  CHECK(comes([&] {
    return fed.times_said(file.path() + ":2: Kafka: No such configuration property") == 1;
  }));
  file.write("\n\nsocket.timeout.ms=soon\n");
  CHECK(comes([&] { return fed.times_said(file.path() + ":3: Kafka: ") == 1; }));
  file.write("error_cb=x");  // a function
  CHECK(comes([&] { return fed.times_said(file.path() + ":1: error_cb may not stand") == 1; }));
  // That one goes with another is known when there is a client of them.
  file.write("security.protocol=sasl_plaintext\nsasl.mechanism=NONE\n");
  CHECK(comes([&] { return fed.times_said(file.path() + ": Kafka: ") == 1; }));
  CHECK(fed.times_said("SASL mechanism") == 1);
}

#ifdef BATCHFLOW_KAFKA_HEADERS
// That the declarations are those of the headers.
static_assert(sizeof(feeds::KafkaLibrary::Message) == sizeof(rd_kafka_message_t));
static_assert(offsetof(feeds::KafkaLibrary::Message, offset) ==
              offsetof(rd_kafka_message_t, offset));
static_assert(offsetof(feeds::KafkaLibrary::Message, key_bytes) ==
              offsetof(rd_kafka_message_t, key_len));
static_assert(offsetof(feeds::KafkaLibrary::Metadata, topic_list) ==
              offsetof(rd_kafka_metadata_t, topics));
static_assert(offsetof(feeds::KafkaLibrary::TopicMetadata, error) ==
              offsetof(rd_kafka_metadata_topic_t, err));
static_assert(sizeof(feeds::KafkaLibrary::TopicMetadata) == sizeof(rd_kafka_metadata_topic_t));
static_assert(feeds::KafkaLibrary::kConsumer == RD_KAFKA_CONSUMER);
static_assert(feeds::KafkaLibrary::kDestroyAtOnce == RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);

namespace {

// Without a link to the library, since no other program has one.
#define BF_KAFKA(name) get<decltype(&name)>(#name)

// Brokers of this process, with one topic.
class Brokers {
 public:
  // False: the library is not here.
  bool begin(int partitions) {
    library_ = ::dlopen("librdkafka.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library_) return false;
    char why[512];
    auto* const settings = BF_KAFKA(rd_kafka_conf_new)();
    BF_KAFKA(rd_kafka_conf_set_log_cb)
    (settings, [](const rd_kafka_t*, int, const char*, const char*) {});
    client_ = BF_KAFKA(rd_kafka_new)(RD_KAFKA_PRODUCER, settings, why, sizeof why);
    REQUIRE(client_);
    cluster_ = BF_KAFKA(rd_kafka_mock_cluster_new)(client_, 1);
    REQUIRE(cluster_);
    BF_KAFKA(rd_kafka_mock_topic_create)(cluster_, "clicks", partitions, 1);
    address_ = BF_KAFKA(rd_kafka_mock_cluster_bootstraps)(cluster_);
    BF_KAFKA(rd_kafka_brokers_add)(client_, address_.c_str());
    topic_ = BF_KAFKA(rd_kafka_topic_new)(client_, "clicks", nullptr);
    REQUIRE(topic_);
    return true;
  }
  ~Brokers() {
    if (topic_) BF_KAFKA(rd_kafka_topic_destroy)(topic_);
    if (cluster_) BF_KAFKA(rd_kafka_mock_cluster_destroy)(cluster_);
    if (client_) BF_KAFKA(rd_kafka_destroy)(client_);
  }
  std::string topic(const char* name = "clicks") const { return address_ + "/" + name; }
  void produce(int partition, const std::string& text, const std::string& key = "") {
    REQUIRE(BF_KAFKA(rd_kafka_produce)(topic_, partition, RD_KAFKA_MSG_F_COPY,
                                       const_cast<char*>(text.data()), text.size(), key.data(),
                                       key.size(), nullptr) == 0);
  }
  void flush() { REQUIRE(BF_KAFKA(rd_kafka_flush)(client_, 20'000) == 0); }
  void set_up(bool up) {
    (up ? BF_KAFKA(rd_kafka_mock_broker_set_up) : BF_KAFKA(rd_kafka_mock_broker_set_down))(cluster_,
                                                                                           1);
  }

 private:
  template <class Function>
  Function get(const char* name) const {
    void* const found = ::dlsym(library_, name);
    REQUIRE(found);
    return reinterpret_cast<Function>(found);
  }
  void* library_ = nullptr;
  rd_kafka_t* client_ = nullptr;
  rd_kafka_mock_cluster_t* cluster_ = nullptr;
  rd_kafka_topic_t* topic_ = nullptr;
  std::string address_;
};

// That each partition's records came once and in their order.
void check(const std::vector<std::string>& records, int partitions, int of_each) {
  std::map<std::string, int> next;
  for (const std::string& one : records) {
    const std::string partition = one.substr(0, one.find(' '));
    REQUIRE(one == fmt::format("{} {}", partition, next[partition]++));
  }
  REQUIRE(next.size() == static_cast<std::size_t>(partitions));
  for (const auto& [partition, count] : next) CHECK(count == of_each);
}

}  // namespace

TEST_CASE("records of all partitions come once, also when the service ends in between") {
  Brokers brokers;
  if (!brokers.begin(3)) return skipped("librdkafka is not installed");
  Fed fed(settings_for(brokers.topic()));
  fed.begin();
  for (int n = 0; n < 200; ++n)
    for (int partition = 0; partition < 3; ++partition)
      brokers.produce(partition, fmt::format("{} {}", partition, n));
  brokers.flush();
  // It ends in the middle, twice, wherever that is.
  for (const std::uint64_t some : {std::uint64_t{1}, std::uint64_t{250}}) {
    REQUIRE(comes([&] { return fed.log->end_record() >= some; }));
    fed.end();
    fed.begin();
  }
  CHECK(comes([&] { return fed.log->end_record() == 600; }));
  for (int partition = 0; partition < 3; ++partition)
    brokers.produce(partition, fmt::format("{} 200", partition));
  brokers.flush();
  CHECK(comes([&] { return fed.log->end_record() == 603; }));
  check(fed.records(), 3, 201);
  CHECK(fed.log->counts().taken == 603);
}

TEST_CASE("records of Kafka follow the rules of the feed") {
  Brokers brokers;
  if (!brokers.begin(1)) return skipped("librdkafka is not installed");
  feeds::FeedSettings settings = settings_for(brokers.topic());
  settings.labelled = true;
  Fed fed(settings);
  fed.begin();
  brokers.produce(0, "a", "7");
  brokers.produce(0, std::string(1001, 'x'), "7");  // too large
  brokers.produce(0, "b", "seven");                 // no class
  brokers.produce(0, "", "7");                      // nothing
  brokers.produce(0, "c", "8");
  brokers.flush();
  CHECK(comes([&] { return fed.log->end_record() == 2; }));
  CHECK(comes([&] { return fed.log->counts().malformed == 3; }));
  CHECK(fed.records() == std::vector<std::string>{"a", "c"});
  CHECK(fed.log->find(0)->label == 7);
  CHECK(fed.log->find(1)->label == 8);
}

TEST_CASE("brokers that are gone are said once, and their records come when they are back") {
  Brokers brokers;
  if (!brokers.begin(1)) return skipped("librdkafka is not installed");
  Fed fed(settings_for(brokers.topic()));
  fed.begin();
  brokers.produce(0, "0 0");
  brokers.flush();
  REQUIRE(comes([&] { return fed.log->end_record() == 1; }));
  brokers.set_up(false);
  CHECK(comes([&] { return fed.times_said("no broker of") == 1; }));
  brokers.set_up(true);
  brokers.produce(0, "0 1");
  brokers.flush();
  CHECK(comes([&] { return fed.log->end_record() == 2; }));
  CHECK(fed.times_said("no broker of") == 1);
  check(fed.records(), 1, 2);
}

TEST_CASE("a feed with no room holds Kafka up, and nothing is lost") {
  Brokers brokers;
  if (!brokers.begin(1)) return skipped("librdkafka is not installed");
  Fed fed(settings_for(brokers.topic()));
  fed.begin();
  fed.server->pace(0, true, std::uint64_t{1} << 32);
  for (int n = 0; n < 3000; ++n) brokers.produce(0, fmt::format("0 {}", n));
  brokers.flush();
  std::this_thread::sleep_for(200ms);
  fed.server->pace(0, false, std::uint64_t{1} << 32);
  CHECK(comes([&] { return fed.log->end_record() == 3000; }));
  check(fed.records(), 1, 3000);
}

TEST_CASE("a feed with settings has the records of its topic, and what was wrong is said once") {
  Brokers brokers;
  if (!brokers.begin(2)) return skipped("librdkafka is not installed");
  const SettingsFile file("security.protocol=tls\n");  // there is no such one
  Fed fed(file.settings_for_feed(brokers.topic()));
  fed.begin();
  for (int partition = 0; partition < 2; ++partition)
    brokers.produce(partition, fmt::format("{} 0", partition));
  brokers.flush();
  CHECK(comes([&] { return fed.times_said(file.path() + ":1: Kafka: ") == 1; }));
  CHECK(fed.log->end_record() == 0);
  file.write("# as written for other clients\r\n\r\n security.protocol = plaintext \r\n");
  CHECK(comes([&] { return fed.log->end_record() == 2; }));
  check(fed.records(), 2, 1);
  CHECK(fed.times_said(":1: Kafka: ") == 1);
}

TEST_CASE("brokers that refuse are said in the library's words, and a changed file counts" *
          doctest::test_suite("long")) {
  Brokers brokers;
  if (!brokers.begin(1)) return skipped("librdkafka is not installed");
  const SettingsFile file("security.protocol=ssl\n");  // these brokers have no TLS
  Fed fed(file.settings_for_feed(brokers.topic()));
  fed.begin();
  brokers.produce(0, "0 0");
  brokers.flush();
  CHECK(comes([&] { return fed.times_said("answers (SSL ") == 1; }));
  std::this_thread::sleep_for(10s);  // it begins anew, and says nothing new
  CHECK(fed.times_said("answers (SSL ") == 1);
  file.write("security.protocol=plaintext\n");
  CHECK(comes([&] { return fed.log->end_record() == 1; }));
  // The source that has partitions loses them with their brokers, and begins anew where it was.
  const std::size_t before = fed.times_said("no broker of");
  brokers.set_up(false);
  CHECK(comes([&] { return fed.times_said("no broker of") > before; }));
  std::this_thread::sleep_for(10s);
  brokers.set_up(true);
  brokers.produce(0, "0 1");
  brokers.flush();
  CHECK(comes([&] { return fed.log->end_record() == 2; }));
  check(fed.records(), 1, 2);
}
#else
TEST_CASE("records of all partitions come once") {
  skipped("librdkafka-dev is not installed");
}
#endif

}  // namespace batchflow::test::kafka_source_test
