#include "programs/config/engine_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/config_value.h"
#include "core/base/names.h"

namespace batchflow::config {
namespace {

// The table of settings beside preset and policies: calls `visit` with the name, value and bounds
// of each. What is read and what is written follow from it.
template <class Config, class Visit>
void visit_table(Config& config, Visit& visit) {
  // A setting that is added to EngineConfig and not here does not compile: each needs a name.
  auto& [preset, policies, seed, credits, ready_window, generation_epochs, block_bytes,
         blocks_least, item_slot_bytes, corrupt_ratio_max, rank_timeout, read_attempts,
         delivery_attempts, retry_wait, share_streams, share_nodes, helper_nodes, workers_per_rank,
         workers_held_during_reads, hold_ingredients, count_staging, staging_bytes,
         staging_sector_bytes, blocks_in_flight_per_worker, look_ahead_most, live_blocks_most,
         late_after_p99, journal_bytes_max, promise_log_bytes_max] = config;
  visit.seed("seed", seed);

  visit.count("credits", credits, 1, engine::kCreditsMost);
  visit.count("ready_window", ready_window, 1, 64);
  visit.count("generation_epochs", generation_epochs, 1, 254);
  visit.bytes("block_bytes", block_bytes, 1);
  visit.count("blocks_least", blocks_least, 1, 1 << 20);
  visit.bytes("item_slot_bytes", item_slot_bytes, 1);
  visit.ratio("corrupt_ratio_max", corrupt_ratio_max);
  visit.duration("rank_timeout", rank_timeout, engine::kRankTimeoutLeast, engine::kDurationMost);

  visit.count("read_attempts", read_attempts, 1, 100);
  visit.count("delivery_attempts", delivery_attempts, 1, 100);
  visit.duration("retry_wait", retry_wait, engine::kRetryWaitLeast, engine::kDurationMost);

  visit.flag("share_streams", share_streams);
  visit.flag("share_nodes", share_nodes);
  visit.count("helper_nodes", helper_nodes, 0, engine::kHelperNodesMost);
  visit.count("workers_per_rank", workers_per_rank, 0, engine::kWorkersPerRankMost);
  visit.flag("workers_held_during_reads", workers_held_during_reads);
  visit.flag("hold_ingredients", hold_ingredients);
  visit.flag("count_staging", count_staging);
  visit.bytes("staging_bytes", staging_bytes, 0);
  visit.bytes("staging_sector_bytes", staging_sector_bytes, 1);
  visit.count("blocks_in_flight_per_worker", blocks_in_flight_per_worker, 1, 64);
  visit.count("look_ahead_most", look_ahead_most, 0, 1 << 20);
  visit.count("live_blocks_most", live_blocks_most, 1, order::kLiveBlocksMost);
  visit.count("late_after_p99", late_after_p99, 0, engine::kLateAfterMost);

  visit.bytes("journal_bytes_max", journal_bytes_max, 4096);
  visit.bytes("promise_log_bytes_max", promise_log_bytes_max, 4096);
}

// Each setting that the section does not have stays as it is.
class SettingReader {
 public:
  explicit SettingReader(ConfigSection& section) : section_(section) {}

  void seed(std::string_view key, std::uint64_t& value) { value = section_.seed(key, value); }
  void count(std::string_view key, std::uint32_t& value, std::int64_t least,
             std::int64_t greatest) {
    value = static_cast<std::uint32_t>(section_.integer(key, value, least, greatest));
  }
  void bytes(std::string_view key, Bytes& value, Bytes least) {
    value = section_.bytes(key, value, least);
  }
  void ratio(std::string_view key, Ratio& value) { value = section_.ratio(key, value); }
  void flag(std::string_view key, bool& value) { value = section_.flag(key, value); }
  void duration(std::string_view key, Duration& value, Duration least, Duration greatest) {
    value = section_.duration(key, value, least, greatest);
  }

 private:
  ConfigSection& section_;
};

void read_preset(ConfigSection& section, engine::EngineConfig& config) {
  const std::string name = section.text("preset", config.preset);
  try {
    engine::apply_preset(config, name);
  } catch (const ConfigError& error) {
    const std::string_view text = error.what();
    const std::size_t cut = text.find("; ");
    section.refuse("preset", text.substr(0, cut), text.substr(cut + 2));
  }
}

void read_policies(ConfigSection& section, engine::PolicyTexts& policies) {
  engine::visit_policies(policies, [&](std::string_view kind, std::string& text) {
    if (!kind.starts_with("eviction.")) text = section.text(kind, text);
  });
  section.section("eviction", [&](ConfigSection& eviction) {
    for (std::size_t one = 0; one < engine::kEvictions; ++one) {
      // Drives and GPUs do as memory does, unless something else is said of them.
      const std::size_t as = one == engine::kOnDrives ? static_cast<std::size_t>(Form::encoded)
                             : one == engine::kOnGpus ? static_cast<std::size_t>(Form::decoded)
                                                      : one;
      policies.eviction[one] = eviction.text(engine::eviction_name(one), policies.eviction[as]);
    }
  });
}

}  // namespace

engine::EngineConfig read_engine_config(ConfigSection& section) {
  engine::EngineConfig config;
  read_preset(section, config);
  section.section("policies",
                  [&](ConfigSection& policies) { read_policies(policies, config.policies); });
  SettingReader reader(section);
  visit_table(config, reader);
  return config;
}

namespace {

// `file:line: ` of the value at `path`; empty when there is none.
std::string source_line_of(const ConfigNode& tree, std::string_view path) {
  const ConfigNode* node = &tree;
  while (node != nullptr && !path.empty()) {
    const std::size_t dot = path.find('.');
    node = node->find(path.substr(0, dot));
    path = dot == std::string_view::npos ? "" : path.substr(dot + 1);
  }
  return node == nullptr || !node->source.file ? "" : node->source.text() + ": ";
}

}  // namespace

void check_policies(const engine::PolicyTexts& policies, const ConfigNode& tree,
                    const PolicyCheck& check) {
  engine::visit_policies(policies, [&](std::string_view name, const std::string& text) {
    try {
      check(name, text);
    } catch (const ConfigError& error) {
      const std::string key = fmt::format("engine.policies.{}", name);
      throw ConfigError(
          fmt::format("{}key '{}': {}", source_line_of(tree, key), key, error.what()));
    }
  });
}

namespace {

std::string value_of(const std::string& text) {
  return text;
}
std::string value_of(bool flag) {
  return flag ? "true" : "false";
}
std::string value_of(Ratio ratio) {
  return fmt::format("{}.{:012}", ratio.parts / Ratio::kWhole, ratio.parts % Ratio::kWhole);
}
std::string value_of(Duration duration) {
  return fmt::format("{}ns", duration.count());
}
template <class Number>
std::string value_of(Number number) {
  return fmt::format("{}", number);
}

// Writes a setting a line.
class SettingWriter {
 public:
  void seed(std::string_view key, std::uint64_t value) { put(key, value); }
  void count(std::string_view key, std::uint32_t value, std::int64_t, std::int64_t) {
    put(key, value);
  }
  void bytes(std::string_view key, Bytes value, Bytes) { put(key, value); }
  void ratio(std::string_view key, Ratio value) { put(key, value); }
  void flag(std::string_view key, bool value) { put(key, value); }
  void duration(std::string_view key, Duration value, Duration, Duration) { put(key, value); }

  template <class Value>
  void put(std::string_view key, const Value& value) {
    text_ += fmt::format("{}={}\n", key, value_of(value));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

std::string text_of(const engine::EngineConfig& config) {
  SettingWriter writer;
  writer.put("preset", config.preset);
  engine::visit_policies(config.policies, [&](std::string_view name, const std::string& chosen) {
    writer.put(fmt::format("policies.{}", name), chosen);
  });
  visit_table(config, writer);
  return writer.text();
}

engine::EngineConfig engine_config_of(std::string_view text, std::string_view name) {
  const auto file = std::make_shared<const std::string>(name);
  ConfigNode root;
  root.source = {file, 1};
  int line = 0;
  visit_settings(text, [&](std::string_view key, std::string_view setting) {
    ConfigNode value;
    value.source = {file, ++line};
    value.kind = ConfigNode::Kind::scalar;
    value.scalar = setting;
    root.set(key, std::move(value));
  });
  engine::EngineConfig config;
  read_config(root, [&](ConfigSection& section) { config = read_engine_config(section); });
  return config;
}

}  // namespace batchflow::config
