// `batchflowctl feed create` as a user calls it: what it refuses, and what the feed's folder has.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "runtime/feeds/feed_settings.h"
#include "tests/runtime/ctl/program.h"
#include "tests/temporary_folder.h"

namespace batchflow::test::feed_test {
namespace fs = std::filesystem;

namespace {

constexpr const char* kTopic = "broker:9093/clicks";

struct Place {
  TemporaryFolder folder;
  TemporaryFolder streams;

  std::string settings(const std::string& text, mode_t mode = 0600) const {
    const std::string path = folder.file("client.properties", text);
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    return path;
  }
  std::string feed() const { return (folder / "feed").string(); }
  Outcome create(std::vector<std::string> words) const {
    words.insert(words.begin(), {"feed", "create", feed()});
    return run_ctl(words, streams.path());
  }
};

}  // namespace

TEST_CASE("a feed keeps the path of its file of Kafka's settings, and not what is in it") {
  const Place place;
  const std::string path = place.settings("sasl.password = hidden\n");
  const Outcome made = place.create({"--kafka", kTopic, "--kafka-settings", path});
  CHECK(made.err == "");
  CHECK(made.code == 0);
  std::ifstream file(place.feed() + "/feed.json");
  const auto json = nlohmann::json::parse(file);
  CHECK(json.at("v").get<int>() == 2);  // no service that would connect without them takes it
  CHECK(json.at("kafka_settings").get<std::string>() == path);
  CHECK(json.dump().find("hidden") == std::string::npos);
  const feeds::FeedSettings settings = feeds::read_settings(place.feed());
  CHECK(settings.kafka_settings == path);
  REQUIRE(settings.sole_writer);
  CHECK(*settings.sole_writer == ::geteuid());
}

TEST_CASE("a file of Kafka's settings that cannot be is refused before there is a feed") {
  const Place place;
  const auto refused = [&](const std::vector<std::string>& words, const std::string& why) {
    CAPTURE(why);
    const Outcome outcome = place.create(words);
    CHECK(outcome.code == 2);
    CHECK(outcome.err.find(why) != std::string::npos);
    CHECK_FALSE(fs::exists(place.feed()));
  };
  const std::string open = place.settings("sasl.password=s\n", 0644);
  refused({"--kafka", kTopic, "--kafka-settings", open}, "others can read it");
  const std::string group = place.settings("# ours\ngroup.id=ours\n");
  refused({"--kafka", kTopic, "--kafka-settings", group}, ":2: group.id may not stand here");
  refused({"--kafka-settings", group}, "no topic");
}

TEST_CASE("options that say nothing are refused") {
  const Place place;
  const Outcome made = place.create({"--schema", "f32[4]", "--record-bytes", "1mib"});
  CHECK(made.code == 2);
  CHECK(made.err.find("the size of those of 'f32[4]' follows from the schema") !=
        std::string::npos);
  CHECK_FALSE(fs::exists(place.feed()));
  const Outcome watched = run_ctl(
      {"feed", "watch", place.feed(), "--from", place.feed(), "--settle=-1"}, place.streams.path());
  CHECK(watched.code == 2);
  CHECK(watched.err.find("--settle") != std::string::npos);
}

TEST_CASE("a file of Kafka's settings may be on the machine of the service alone") {
  const Place place;
  const std::string path = (place.folder / "elsewhere").string();
  const Outcome made = place.create({"--kafka", kTopic, "--kafka-settings", path});
  CHECK(made.code == 0);
  CHECK(made.err.find(path + ": No such file or directory; the service needs it") !=
        std::string::npos);
  CHECK(feeds::read_settings(place.feed()).kafka_settings == path);
}

}  // namespace batchflow::test::feed_test
