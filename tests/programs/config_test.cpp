#include "programs/config/config.h"
#include "tests/config_error.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace batchflow::test::config_test {
using namespace std::chrono_literals;

namespace {

const auto kFile = std::make_shared<const std::string>("a.yaml");

config::ConfigNode scalar(std::string text, int line) {
  config::ConfigNode node;
  node.source = {kFile, line};
  node.kind = config::ConfigNode::Kind::scalar;
  node.scalar = std::move(text);
  return node;
}

struct Line {
  const char* path;
  std::string text;
  int line;
};
config::ConfigNode tree(std::initializer_list<Line> lines) {
  config::ConfigNode root;
  root.source = {kFile, 1};
  for (const Line& line : lines) root.set(line.path, scalar(line.text, line.line));
  return root;
}

std::string error_of(const config::ConfigNode& root, const config::ConfigSection::Reader& read) {
  return config_error([&] { config::read_config(root, read); });
}

}  // namespace

TEST_CASE("sizes are exact, in powers of ten or of two") {
  CHECK(parse_bytes("64gb") == 64'000'000'000);
  CHECK(parse_bytes("64GiB") == 64ull << 30);
  CHECK(parse_bytes("4096") == 4096);
  CHECK(parse_bytes("1.5kib") == 1536);
  CHECK(parse_bytes("0.3b") == 0);
  CHECK(parse_bytes("9pb") == 9'000'000'000'000'000);
  for (const char* text : {"", "gb", "-1", "1 gb", "1.gb", ".5gb", "1e3", "1..5", "64gg", "9999pib",
                           "1000000000000000000000", "+1", "0x10", "1g b"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_bytes(text));
  }
  const auto tenth = parse_size("10%");
  REQUIRE(tenth);
  CHECK(tenth->bytes_of(99) == 9);
  CHECK(parse_size("0.1%")->bytes_of(1'000'000) == 1000);
  CHECK(parse_size("100%")->bytes_of(UINT64_MAX) == UINT64_MAX);
  CHECK(parse_size("10")->bytes_of(99) == 10);
  CHECK_FALSE(parse_size("%"));
  CHECK(parse_ratio("0.001")->share_of(1'281'167) == 1281);
}

TEST_CASE("durations need a unit, numbers are whole texts") {
  CHECK(parse_duration("300s") == 300s);
  CHECK(parse_duration("1.5ms") == 1500us);
  CHECK(parse_duration("2min") == 120s);
  CHECK(parse_duration("0") == 0s);
  CHECK_FALSE(parse_duration("5"));
  CHECK_FALSE(parse_duration("1000000d"));
  CHECK(parse_integer("-7") == -7);
  CHECK_FALSE(parse_integer("7x"));
  CHECK(parse_unsigned("18446744073709551615") == UINT64_MAX);
  CHECK(parse_unsigned("0xff") == 255);
  CHECK_FALSE(parse_unsigned("18446744073709551616"));
  CHECK_FALSE(parse_number("nan"));
  CHECK_FALSE(parse_number("1e999"));
  CHECK(parse_number("0.25") == 0.25);
  CHECK(parse_flag("true") == true);
  CHECK_FALSE(parse_flag("yes"));
}

TEST_CASE("what is written is read, what is not keeps its default") {
  const config::ConfigNode root =
      tree({{"cache.size", "10%", 2}, {"cache.slots", "12", 3}, {"timeout", "5s", 4}});
  config::read_config(root, [](config::ConfigSection& section) {
    section.section("cache", [](config::ConfigSection& cache) {
      CHECK(cache.size("size", {}).bytes_of(1000) == 100);
      CHECK(cache.integer("slots", 0) == 12);
      CHECK(cache.flag("warm", true));
    });
    section.section("absent", [](config::ConfigSection&) { FAIL("there is no such section"); });
    CHECK(section.duration("timeout", 1s) == 5s);
    CHECK(section.seed("seed", 7) == 7);
  });
}

TEST_CASE("errors name file, line, key, what is wrong and what to write") {
  const config::ConfigNode root = tree({{"cache.size", "much", 2}, {"cache.slotz", "1", 3}});
  CHECK(error_of(root,
                 [](config::ConfigSection& section) {
                   section.section("cache",
                                   [](config::ConfigSection& cache) { cache.bytes("size", 0); });
                 }) ==
        "a.yaml:2: key 'cache.size': 'much' is not a size; write a size such as 64gb (10^9) or "
        "64gib (2^30)");
  CHECK(error_of(root, [](config::ConfigSection& section) {
          section.section("cache", [](config::ConfigSection& cache) {
            cache.text("size", "");
            cache.integer("slots", 0);
          });
        }) == "a.yaml:3: key 'cache.slotz': unknown key; did you mean 'slots'?");
  CHECK(error_of(root, [](config::ConfigSection& section) { section.integer("cache", 0, 1, 4); }) ==
        "a.yaml:2: key 'cache': expected a single value, found a map; write a whole number from 1 "
        "to 4");
  CHECK(error_of(root, [](config::ConfigSection& section) {
          section.section("cache", [](config::ConfigSection& cache) {
            cache.one_of("slotz", {"dram", "nvme"}, 0);
            cache.text("size", "");
          });
        }) == "a.yaml:3: key 'cache.slotz': unknown value '1'; write one of dram, nvme");
  CHECK(error_of(root, [](config::ConfigSection& section) {
          section.require("kind", "write kind: study");
        }) == "a.yaml:1: key 'kind': is missing; write kind: study");
  CHECK(error_of(tree({{"x", "9", 5}}), [](config::ConfigSection& section) {
          section.integer("x", 0, 1, 4);
        }) == "a.yaml:5: key 'x': 9 is out of bounds; write a whole number from 1 to 4");
}

TEST_CASE("a hostile value stays one short line in its error") {
  const std::string error =
      error_of(tree({{"x", std::string(5000, 'a') + "\n\x1b[31m", 1}}),
               [](config::ConfigSection& section) { section.flag("x", false); });
  CHECK(error.size() < 160);
  CHECK(error.find('\n') == std::string::npos);
}

TEST_CASE("an override changes, adds, reaches into lists, and refuses what it cannot reach") {
  config::ConfigNode root = tree({{"cache.size", "1gb", 2}});
  root.set("cache.size", scalar("2gb", 0));
  root.set("policies.eviction", scalar("lru", 0));
  CHECK(root.find("cache")->find("size")->scalar == "2gb");
  CHECK(root.find("policies")->find("eviction")->scalar == "lru");
  config::ConfigNode jobs;
  jobs.kind = config::ConfigNode::Kind::list;
  jobs.list.emplace_back();
  root.set("jobs", jobs);
  root.set("jobs.0.batch", scalar("8", 0));
  CHECK(root.find("jobs")->list[0].find("batch")->scalar == "8");
  CHECK_THROWS_AS(root.set("jobs.1.batch", scalar("8", 0)), ConfigError);
  CHECK_THROWS_AS(root.set("cache.size.unit", scalar("8", 0)), ConfigError);
  CHECK_THROWS_AS(root.set("cache..size", scalar("8", 0)), ConfigError);
  CHECK_THROWS_AS(root.set("", scalar("8", 0)), ConfigError);
}

}  // namespace batchflow::test::config_test
