// Files of settings for Kafka: what is taken, and what is refused with which words.
#include "runtime/feeds/kafka_settings.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "fmt/format.h"
#include "tests/temporary_folder.h"

namespace batchflow::test::kafka_settings_test {
namespace {

std::string parse(const std::string& text, std::vector<feeds::KafkaSetting>& all) {
  return feeds::parse_kafka_settings(text, "file", all);
}

std::string problem_of(const std::string& text) {
  std::vector<feeds::KafkaSetting> all;
  return parse(text, all);
}

// A feed that names a file of settings, as read by its owner.
struct Named {
  explicit Named(const std::string& text, mode_t mode = 0600) {
    feed.kafka_settings = folder.file("client.properties", text);
    REQUIRE(::chmod(feed.kafka_settings.c_str(), mode) == 0);
    feed.sole_writer = ::geteuid();
  }
  std::string read() { return feeds::read_kafka_settings("/feed", feed, all); }

  TemporaryFolder folder;
  feeds::FeedSettings feed;
  std::vector<feeds::KafkaSetting> all;
};

}  // namespace

TEST_CASE("each line is a setting, as it is") {
  std::vector<feeds::KafkaSetting> all;
  CHECK(parse("# of the cluster\r\n"
              "security.protocol=SASL_SSL\r\n"
              "\n"
              "  sasl.mechanism = SCRAM-SHA-512  \n"
              "   # who\n"
              "sasl.username=me\n"
              "sasl.password=a=b #c d\\e\n"
              "ssl.key.password=\n"
              "topic.acks=1",
              all) == "");
  std::string text;
  for (const feeds::KafkaSetting& one : all)
    text += fmt::format("{} {}[{}]\n", one.line, one.name, one.value);
  CHECK(text ==
        "2 security.protocol[SASL_SSL]\n"
        "4 sasl.mechanism[SCRAM-SHA-512]\n"
        "6 sasl.username[me]\n"
        "7 sasl.password[a=b #c d\\e]\n"
        "8 ssl.key.password[]\n"
        "9 topic.acks[1]\n");
  CHECK(parse("", all) == "");
  CHECK(all.empty());
}

TEST_CASE("a line that is no setting is refused by its number, and not repeated") {
  for (const char* const line : {"hidden", "=hidden", " = hidden", "sasl.password: hidden=",
                                 "sasl.password hidden=x", "! hidden=x", "\xef\xbb\xbfhidden=x"}) {
    CAPTURE(line);
    CHECK(problem_of(fmt::format("client.id=a\n\n{}\n", line)) == "file:3: it is no name=value");
  }
  CHECK(problem_of("sasl.password=hid\x01"
                   "den") == "file:1: sasl.password: its value has a control character");
  CHECK(problem_of(std::string("sasl.password=hid\0den", 21)) ==
        "file:1: sasl.password: its value has a control character");
  CHECK(problem_of("sasl.jaas.config=hidden \\\n  more") ==
        "file:1: sasl.jaas.config: its value ends with a backslash; write all of it in one line");
}

TEST_CASE("what the feed relies on may not be set, under any of its names") {
  for (const char* const name :
       {"group.id", "group.instance.id", "enable.auto.commit", "auto.commit.enable",
        "auto.commit.interval.ms", "enable.auto.offset.store", "auto.offset.reset",
        "topic.auto.offset.reset", "offset.store.method", "offset.store.path",
        "offset.store.sync.interval.ms"}) {
    CAPTURE(name);
    CHECK(problem_of(fmt::format("{}=x", name)) ==
          fmt::format("file:1: {} may not stand here: the feed's log says where to go on, so that "
                      "each record comes once, and commits nothing",
                      name));
  }
  for (const char* const name :
       {"bootstrap.servers", "metadata.broker.list", "test.mock.num.brokers"})
    CHECK(problem_of(fmt::format("{}=x", name)).find("--kafka") != std::string::npos);
  for (const char* const name :
       {"queued.max.messages.kbytes", "max.poll.interval.ms", "reconnect.backoff.max.ms"})
    CHECK(problem_of(fmt::format("{}=x", name)).find("has a bound") != std::string::npos);
}

TEST_CASE("nothing of the file is run or loaded by the service") {
  for (const char* const name :
       {"plugin.library.paths", "ssl.engine.location", "ssl.engine.id", "ssl.providers"}) {
    CAPTURE(name);
    CHECK(problem_of(fmt::format("{}=x", name)) ==
          fmt::format("file:1: {} may not stand here: it loads code into the service", name));
  }
  for (const char* const name :
       {"sasl.kerberos.kinit.cmd", "sasl.kerberos.keytab", "sasl.kerberos.principal",
        "sasl.kerberos.min.time.before.relogin"})
    CHECK(problem_of(fmt::format("{}=x", name)).find("runs no command") != std::string::npos);
  for (const char* const name :
       {"error_cb", "oauthbearer_token_refresh_cb", "ssl.certificate.verify_cb"})
    CHECK(problem_of(fmt::format("{}=x", name)).find("a function") != std::string::npos);
  for (const char* const name : {"debug", "enabled_events", "internal.termination.signal",
                                 "log.queue", "statistics.interval.ms"})
    CHECK(problem_of(fmt::format("{}=x", name)).find("a feed does not") != std::string::npos);
}

TEST_CASE("a file is read for the feed that names it") {
  Named named("sasl.username=me\nsasl.password=hidden\n");
  CHECK(named.read() == "");
  REQUIRE(named.all.size() == 2);
  CHECK(named.all[1].value == "hidden");
  named.feed.kafka_settings.clear();
  CHECK(named.read() == "");
  CHECK(named.all.empty());
}

TEST_CASE("a file that others may read or write is refused") {
  for (const mode_t mode : {mode_t{0640}, mode_t{0604}, mode_t{0620}, mode_t{0602}}) {
    CAPTURE(mode);
    Named named("sasl.password=hidden\n", mode);
    CHECK(named.read().find("it is a secret; chmod 600") != std::string::npos);
    CHECK(named.all.empty());
  }
}

TEST_CASE("a file that is too large is refused") {
  Named named(std::string(feeds::kKafkaSettingsMost + 1, '#'));
  CHECK(named.read().find("it has 65537 bytes, and a file of Kafka's settings at most 65536") !=
        std::string::npos);
  Named fits(std::string(feeds::kKafkaSettingsMost, '#'));
  CHECK(fits.read() == "");
}

// Else a user who may make feeds would have the service's passwords sent to brokers of their own.
TEST_CASE("a feed uses the file of its own user alone, and no feed that others may change does") {
  Named named("sasl.password=hidden\n");
  named.feed.sole_writer = ::geteuid() + 1;
  CHECK(named.read() == named.feed.kafka_settings +
                            ": it belongs to another user than /feed/feed.json, so the feed may "
                            "not use it; let its user make the feed");
  CHECK(named.all.empty());
  named.feed.sole_writer.reset();
  CHECK(named.read().find("/feed/feed.json: others can write it") == 0);
  CHECK(named.all.empty());
  named.feed.sole_writer = 0;  // who may read it anyway
  CHECK(named.read() == "");
}

TEST_CASE("feeds with settings of Kafka have a version that older services refuse") {
  feeds::FeedSettings settings;
  CHECK_THROWS_AS(feeds::set_kafka_settings(settings, "/a"), feeds::FeedError);  // no topic
  feeds::set_kafka(settings, "broker:9093/clicks");
  feeds::complete(settings);
  const std::string plain = feeds::to_json(settings);
  CHECK(plain.find("\"v\": 1,") != std::string::npos);
  CHECK_THROWS_AS(feeds::set_kafka_settings(settings, "a"), feeds::FeedError);
  feeds::set_kafka_settings(settings, "/a");
  std::string text = feeds::to_json(settings);
  CHECK(feeds::settings_from_json(text, "feed.json") == settings);
  const std::size_t version = text.find("\"v\": 2,");
  REQUIRE(version != std::string::npos);
  text[version + 5] = '1';
  CHECK_THROWS_AS(feeds::settings_from_json(text, "feed.json"), feeds::FeedError);
  text[version + 5] = '3';
  CHECK_THROWS_AS(feeds::settings_from_json(text, "feed.json"), feeds::FeedError);
}

TEST_CASE("who alone may write a feed's settings is read with them") {
  const TemporaryFolder folder;
  const std::string feed = (folder / "feed").string();
  feeds::FeedSettings settings;
  feeds::set_kafka(settings, "broker:9093/clicks");
  feeds::set_kafka_settings(settings, "/a");
  const mode_t before = ::umask(0);  // others may write all that is made
  feeds::create_feed(feed, settings);
  ::umask(before);
  const auto writer = feeds::read_settings(feed).sole_writer;
  REQUIRE(writer);
  CHECK(*writer == ::geteuid());
  for (const mode_t mode : {mode_t{0664}, mode_t{0646}}) {
    REQUIRE(::chmod((feed + "/feed.json").c_str(), mode) == 0);
    CHECK_FALSE(feeds::read_settings(feed).sole_writer);
  }
}

}  // namespace batchflow::test::kafka_settings_test
