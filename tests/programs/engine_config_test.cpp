#include "core/engine/engine_config.h"
#include "programs/config/engine_settings.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

#include "core/base/random.h"
#include "programs/input/yaml.h"
#include "tests/config_error.h"
#include "tests/source_dir.h"

namespace batchflow::test::engine_config_test {
namespace fs = std::filesystem;

namespace {

engine::EngineConfig read(const config::ConfigNode& root) {
  engine::EngineConfig config;
  config::read_config(root, [&](config::ConfigSection& section) {
    section.one_of("kind", {"engine"}, 0);
    config = config::read_engine_config(section);
  });
  return config;
}

engine::EngineConfig read(std::string_view text) {
  return read(input::parse_yaml(text, "t.yaml"));
}

std::string error_of(std::string_view text) {
  return config_error([&] { read(text); });
}

const fs::path kEngineConfigs = source_dir() / "configs/engine";

TEST_CASE("an engine's configuration as text is the same one, every setting changed") {
  engine::EngineConfig config;
  engine::apply_preset(config, "independent");
  config.policies = {
      "equal", {"sieve", "arc", "lru"}, "ready-first", "bounded-lag:blocks=4", "static:depth=3"};
  config.seed = UINT64_MAX;
  config.credits = 7;
  config.ready_window = 9;
  config.generation_epochs = 11;
  config.block_bytes = 12345;
  config.blocks_least = 9;
  config.item_slot_bytes = 77;
  config.corrupt_ratio_max = Ratio{123'456'789'012};
  config.rank_timeout = Duration(1'234'567'891);
  config.read_attempts = 6;
  config.delivery_attempts = 8;
  config.retry_wait = Duration(10'001);
  config.share_streams = true;
  config.share_nodes = true;
  config.helper_nodes = 3;
  config.workers_per_rank = 2;
  config.workers_held_during_reads = false;
  config.hold_ingredients = false;
  config.blocks_in_flight_per_worker = 5;
  config.look_ahead_most = 0;
  config.live_blocks_most = 9;
  config.late_after_p99 = 13;
  config.journal_bytes_max = 5000;
  config.promise_log_bytes_max = 6000;
  CHECK(config::engine_config_of(config::text_of(config), "t") == config);
  CHECK(config::engine_config_of(config::text_of(engine::EngineConfig()), "t") ==
        engine::EngineConfig());
  CHECK_THROWS_WITH_AS(config::engine_config_of("credits=3\ncredit=4\n", "t"),
                       doctest::Contains("t:2: key 'credit'"), ConfigError);
  for (const char* const broken : {"credits", "=", "\n", "credits=", "a.b=1", "seed.x=1"}) {
    CAPTURE(broken);
    CHECK_THROWS_AS(config::engine_config_of(broken, "t"), ConfigError);
  }
}

}  // namespace

TEST_CASE("the commented default configuration says what the code does") {
  CHECK(read(input::read_yaml_file(kEngineConfigs / "default.yaml")) == engine::EngineConfig());
  CHECK(read("") == engine::EngineConfig());
}

TEST_CASE("the commented default configuration has every setting") {
  const config::ConfigNode root = input::read_yaml_file(kEngineConfigs / "default.yaml");
  std::istringstream settings(config::text_of(engine::EngineConfig()));
  int count = 0;
  for (std::string line; std::getline(settings, line); ++count) {
    CAPTURE(line);
    const config::ConfigNode* node = &root;
    std::istringstream path(line.substr(0, line.find('=')));
    for (std::string key; node && std::getline(path, key, '.');) node = node->find(key);
    CHECK(node != nullptr);
  }
  CHECK(count > 30);
}

TEST_CASE("every engine configuration in the tree can be read") {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(kEngineConfigs)) {
    CAPTURE(entry.path().string());
    CHECK_NOTHROW(read(input::read_yaml_file(entry.path())));
    ++files;
  }
  CHECK(files >= 2);
}

TEST_CASE("a preset sets what it must, and what stands beside it wins") {
  const engine::EngineConfig config =
      read("preset: independent\npolicies: {eviction: {encoded: lru}}\n");
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
  const config::ConfigNode root = input::read_yaml_file(kEngineConfigs / "default.yaml");
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
    config::ConfigNode changed = root;
    try {
      for (std::uint64_t i = 1 + random.below(3); i > 0; --i) {
        const std::string key = random.below(8) == 0 ? "policies.eviction"
                                                     : root.map[random.below(root.map.size())].key;
        input::apply_override(changed,
                              key + "=" + std::string(values[random.below(std::size(values))]));
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

}  // namespace batchflow::test::engine_config_test
