#include "core/engine_config.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "configs/reader/yaml.h"
#include "core/random.h"
#include "tests/source_dir.h"

using namespace batchflow;
namespace fs = std::filesystem;

namespace {

EngineConfig read(const ConfigNode& root) {
  EngineConfig config;
  read_config(root, [&](ConfigSection& section) {
    section.one_of("kind", {"engine"}, 0);
    config = read_engine_config(section);
  });
  return config;
}

EngineConfig read(std::string_view text) {
  return read(parse_yaml(text, "t.yaml"));
}

std::string error_of(std::string_view text) {
  try {
    read(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

const fs::path kEngineConfigs = source_dir() / "configs/engine";

}  // namespace

TEST_CASE("the commented default configuration says what the code does") {
  CHECK(read(read_yaml_file(kEngineConfigs / "default.yaml")) == EngineConfig());
  CHECK(read("") == EngineConfig());
}

TEST_CASE("every engine configuration in the tree can be read") {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(kEngineConfigs)) {
    CAPTURE(entry.path().string());
    CHECK_NOTHROW(read(read_yaml_file(entry.path())));
    ++files;
  }
  CHECK(files >= 2);
}

TEST_CASE("a preset sets what it must, and what stands beside it wins") {
  const EngineConfig config = read("preset: independent\npolicies: {eviction: {encoded: lru}}\n");
  CHECK_FALSE(config.share_streams);
  CHECK(config.workers_held_during_reads);
  CHECK(config.policies.eviction[0] == "lru");
  CHECK(config.policies.eviction[1] == "random");
  CHECK(read("preset: independent\nshare_streams: true\n").share_streams);
}

TEST_CASE("what is wrong is named with its place and remedy") {
  CHECK(error_of("preset: indepedent\n") ==
        "t.yaml:1: key 'preset': unknown preset 'indepedent'; did you mean 'independent'?");
  CHECK(error_of("credits: 0\n") ==
        "t.yaml:1: key 'credits': 0 is out of bounds; write a whole number from 1 to 1024");
  CHECK(error_of("seed: 1\npolicies:\n  evction: {}\n") ==
        "t.yaml:3: key 'policies.evction': unknown key; did you mean 'eviction'?");
  CHECK(error_of("ready_window: 65\n") != "");
  CHECK(error_of("rank_timeout: 300\n") ==
        "t.yaml:1: key 'rank_timeout': '300' is not a time; write a time such as 300s (units ns, "
        "us, ms, s, min, h, d)");
}

TEST_CASE("random changes of the default configuration are read or refused, never more") {
  const ConfigNode root = read_yaml_file(kEngineConfigs / "default.yaml");
  constexpr std::string_view values[] = {
      "",          "~",      "-1",   "0",    "1e9",
      "[1]",       "{a: 1}", "true", "10%",  "200%",
      "64gib",     "1ns",    "lru",  "[[]]", "99999999999999999999",
      "\"\\x00\"", "0x10",   "1.5"};
  const char* only = std::getenv("BATCHFLOW_SEED");
  const std::uint64_t first = only ? std::strtoull(only, nullptr, 10) : 1;
  const std::uint64_t last = only ? first : 5'000;
  int accepted = 0;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    INFO("replay: BATCHFLOW_SEED=" << seed << " test_configs --test-case='random changes*'");
    Random random(hash(seed));
    ConfigNode changed = root;
    try {
      for (std::uint64_t i = 1 + random.below(3); i > 0; --i) {
        const std::string key = random.below(8) == 0 ? "policies.eviction"
                                                     : root.map[random.below(root.map.size())].key;
        apply_override(changed, key + "=" + std::string(values[random.below(std::size(values))]));
      }
      read(changed);
      ++accepted;
    } catch (const ConfigError& error) {
      const std::string what = error.what();
      CHECK_MESSAGE(what.find("--set ") == 0, what);
      CHECK_MESSAGE(what.find("; ") != std::string::npos, what);
    }
  }
  if (!only) CHECK(accepted > 30);
}
