#include "programs/input/yaml.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "core/base/random.h"

namespace batchflow::test::yaml_test {

namespace {

std::string error_of(std::string_view text, const input::YamlLimits& limits = {}) {
  try {
    input::parse_yaml(text, "t.yaml", limits);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// A line that shows a whole tree, without source lines.
std::string dump(const config::ConfigNode& node) {
  std::string text;
  switch (node.kind) {
    case config::ConfigNode::Kind::empty:
      return "~";
    case config::ConfigNode::Kind::scalar:
      return node.scalar;
    case config::ConfigNode::Kind::list:
      for (const config::ConfigNode& item : node.list)
        text += (text.empty() ? "" : " ") + dump(item);
      return "[" + text + "]";
    case config::ConfigNode::Kind::map:
      for (const auto& [key, value] : node.map) {
        text += (text.empty() ? "" : " ") + key + ":" + dump(value);
      }
      return "{" + text + "}";
  }
  return text;
}

constexpr std::string_view kExample = R"(# an example with everything the reader knows
kind: scenario
cache: &cache
  size: 64gib
  forms: [encoded, decoded]
nodes:
  - name: a
    cache: *cache
  - name: b
    cache:
      <<: *cache
      size: "10%"
empty:
text: >
  folded
  lines
)";

}  // namespace

TEST_CASE("maps, lists, values, anchors and merges, each with its line") {
  const config::ConfigNode root = input::parse_yaml(kExample, "t.yaml");
  CHECK(dump(root) ==
        "{kind:scenario cache:{size:64gib forms:[encoded decoded]} nodes:[{name:a "
        "cache:{size:64gib forms:[encoded decoded]}} {name:b cache:{size:10% forms:[encoded "
        "decoded]}}] empty:~ text:folded lines\n}");
  CHECK(root.find("cache")->find("size")->source.text() == "t.yaml:4");
  CHECK(root.find("nodes")->list[1].find("cache")->find("size")->source.line == 12);
  CHECK(dump(input::parse_yaml("", "t.yaml")) == "~");
  CHECK(dump(input::parse_yaml("# nothing\n", "t.yaml")) == "~");
}

TEST_CASE("what is not a configuration is refused with its line") {
  CHECK(error_of("a: 1\nb: 2\na: 3\n") ==
        "t.yaml:3: key 'a' is here twice; keep one (the first is on line 1)");
  CHECK(has(error_of("a: 1\n b: 2\n"), "t.yaml:2: not valid YAML: "));
  CHECK(has(error_of("a: [1, 2\n"), "t.yaml:"));
  CHECK(has(error_of("a: *missing\n"), "t.yaml:1: not valid YAML: "));
  CHECK(has(error_of("a: &x [*x]\n"), "t.yaml:1: an alias inside what it names"));
  CHECK(has(error_of("a: !!binary aGVsbG8=\n"), "t.yaml:1: a tag"));
  CHECK(has(error_of("a: 1\n---\nb: 2\n"), "t.yaml: a second document"));
  CHECK(has(error_of("? [a, b]\n: 1\n"), "t.yaml:1: a key that is not a plain text"));
  CHECK(has(error_of("x: &x a\n*x : b\n"), "a key that is not a plain text"));
  CHECK(has(error_of("a:\n  <<: 5\n"), "t.yaml:2: `<<` of something that is not a map"));
  CHECK(has(error_of("a: \"unclosed\n"), "t.yaml:"));
  CHECK_THROWS_AS(input::read_yaml_file("/no/such/file.yaml"), ConfigError);
  CHECK_THROWS_AS(input::read_yaml_file("/"), ConfigError);
}

TEST_CASE("hostile texts end at a limit, soon") {
  const auto begin = std::chrono::steady_clock::now();
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + last;
    for (int k = 1; k < 10; ++k) bomb += ", " + last;
    bomb += "]\n";
  }
  CHECK(has(error_of(bomb), "aliases included"));

  std::string deep = "a0: &a0 [x]\n";
  for (int i = 1; i < 80; ++i) {
    deep += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) +
            "]\n";
  }
  CHECK(has(error_of(deep), "nested more than 64 deep"));

  CHECK(error_of(std::string(100'000, '[')) != "");
  CHECK(has(error_of("a: " + std::string(200, '[')), "t.yaml:1: "));
  CHECK(error_of(std::string(1 << 20, '{')) != "");
  CHECK(error_of(std::string(1 << 20, '-')) == "");  // one long value
  std::string nested;
  for (int i = 0; i < 500; ++i) nested += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  CHECK(has(error_of(nested), "deep"));
  CHECK(has(error_of(std::string((1 << 20) + 1, ' ')), "larger than"));
  std::string wide;
  for (int i = 0; i < 60'000; ++i) wide += "k" + std::to_string(i) + ": 1\n";
  CHECK(has(error_of(wide), "more than 100000 values"));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
}

TEST_CASE("an override is YAML, and its errors name it") {
  config::ConfigNode root = input::parse_yaml(kExample, "t.yaml");
  input::apply_override(root, "cache.size=2gb");
  input::apply_override(root, "sizes=[1%, 10%]");
  input::apply_override(root, "nodes.0.name=");
  CHECK(dump(*root.find("cache")) == "{size:2gb forms:[encoded decoded]}");
  CHECK(dump(*root.find("sizes")) == "[1% 10%]");
  CHECK(dump(*root.find("nodes")->list[0].find("name")) == "~");
  try {
    config::read_config(root, [](config::ConfigSection& section) {
      section.section("cache",
                      [](config::ConfigSection& cache) { cache.bytes("size", 0, 4'000'000'000); });
    });
    FAIL("2gb is below 4gb");
  } catch (const ConfigError& error) {
    CHECK(has(error.what(), "--set cache.size=2gb: key 'cache.size': 2000000000 bytes is too "));
  }
  CHECK_THROWS_AS(input::apply_override(root, "no assignment"), ConfigError);
  CHECK_THROWS_AS(input::apply_override(root, "=1"), ConfigError);
  CHECK_THROWS_AS(input::apply_override(root, "a=[1"), ConfigError);
}

namespace {

// A few random edits of a valid text: bytes flipped, removed, repeated, and pieces of syntax.
std::string mutated(std::string text, Random& random) {
  constexpr std::string_view pieces[] = {"&a ", "*a", "<<: ", "[",  "]",     "{",           "}",
                                         ": ",  "- ", "\n",   "\t", "---",   "\"",          "'",
                                         "|",   ">",  "!",    "? ", "%YAML", "~",           "#",
                                         "\r",  ",",  "\\x",  "@",  "\xff",  "\xef\xbb\xbf"};
  const auto edits = 1 + random.below(6);
  for (std::uint64_t i = 0; i < edits; ++i) {
    const auto at = static_cast<std::size_t>(random.below(text.size() + 1));
    switch (random.below(4)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(random.below(256));
        break;
      case 1:
        text.erase(at, static_cast<std::size_t>(random.below(12)));
        break;
      case 2:
        text.insert(at, pieces[random.below(std::size(pieces))]);
        break;
      case 3: {
        const std::string piece = text.substr(at, static_cast<std::size_t>(random.below(40)));
        text.insert(static_cast<std::size_t>(random.below(text.size() + 1)), piece);
        break;
      }
    }
  }
  return text;
}

void fuzz(std::uint64_t first_seed, std::uint64_t seeds) {
  if (const char* only = std::getenv("BATCHFLOW_SEED")) {
    first_seed = std::strtoull(only, nullptr, 10);
    seeds = 1;
  }
  for (std::uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
    Random random(hash(seed));
    const std::string text = mutated(std::string(kExample), random);
    INFO("replay: BATCHFLOW_SEED=" << seed << " test_configs --test-case='*mutated*'");
    try {
      dump(input::parse_yaml(text, "t.yaml"));
    } catch (const ConfigError& error) {
      const std::string what = error.what();
      CHECK_MESSAGE(what.starts_with("t.yaml"), what);
      CHECK_MESSAGE(has(what, "; "), what);
    } catch (const std::exception& error) {
      FAIL_CHECK("not a ConfigError: " << error.what());
    }
  }
}

}  // namespace

TEST_CASE("a program that must not wait refuses what it might wait for") {
  for (const char* path : {"-", "/dev/null", "/"})
    CHECK_THROWS_WITH(
        input::read_regular_yaml_file(path),
        doctest::Contains("is no regular file, and might be waited for; write it to a file"));
  CHECK_THROWS_WITH(input::read_regular_yaml_file("/no/such.yaml"),
                    doctest::Contains("No such file"));
}

TEST_CASE("mutated configurations are read or refused, never more") {
  fuzz(1, 5'000);
}

TEST_SUITE("long") {
  TEST_CASE("many mutated configurations are read or refused") {
    fuzz(1'000'000, 1'000'000);
  }
}

}  // namespace batchflow::test::yaml_test
