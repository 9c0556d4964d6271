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

std::uint32_t count(ConfigSection& section, std::string_view key, std::uint32_t fallback,
                    std::int64_t least, std::int64_t greatest) {
  return static_cast<std::uint32_t>(section.integer(key, fallback, least, greatest));
}

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
      // Drives do as memory does, unless something else is said of them.
      const bool of_drives = one == engine::kOnDrives;
      policies.eviction[one] =
          eviction.text(engine::eviction_name(one), policies.eviction[of_drives ? 0 : one]);
    }
  });
}

}  // namespace

engine::EngineConfig read_engine_config(ConfigSection& section) {
  engine::EngineConfig config;
  read_preset(section, config);
  section.section("policies",
                  [&](ConfigSection& policies) { read_policies(policies, config.policies); });
  config.seed = section.seed("seed", config.seed);

  config.credits = count(section, "credits", config.credits, 1, engine::kCreditsMost);
  config.ready_window = count(section, "ready_window", config.ready_window, 1, 64);
  config.generation_epochs = count(section, "generation_epochs", config.generation_epochs, 1, 254);
  config.block_bytes = section.bytes("block_bytes", config.block_bytes, 1);
  config.blocks_least = count(section, "blocks_least", config.blocks_least, 1, 1 << 20);
  config.item_slot_bytes = section.bytes("item_slot_bytes", config.item_slot_bytes, 1);
  config.corrupt_ratio_max = section.ratio("corrupt_ratio_max", config.corrupt_ratio_max);
  config.rank_timeout = section.duration("rank_timeout", config.rank_timeout,
                                         engine::kRankTimeoutLeast, engine::kDurationMost);

  config.read_attempts = count(section, "read_attempts", config.read_attempts, 1, 100);
  config.delivery_attempts = count(section, "delivery_attempts", config.delivery_attempts, 1, 100);
  config.retry_wait = section.duration("retry_wait", config.retry_wait, engine::kRetryWaitLeast,
                                       engine::kDurationMost);

  config.share_streams = section.flag("share_streams", config.share_streams);
  config.share_nodes = section.flag("share_nodes", config.share_nodes);
  config.helper_nodes =
      count(section, "helper_nodes", config.helper_nodes, 0, engine::kHelperNodesMost);
  config.workers_per_rank =
      count(section, "workers_per_rank", config.workers_per_rank, 0, engine::kWorkersPerRankMost);
  config.workers_held_during_reads =
      section.flag("workers_held_during_reads", config.workers_held_during_reads);
  config.hold_ingredients = section.flag("hold_ingredients", config.hold_ingredients);
  config.count_staging = section.flag("count_staging", config.count_staging);
  config.staging_bytes = section.bytes("staging_bytes", config.staging_bytes, 0);
  config.staging_sector_bytes =
      section.bytes("staging_sector_bytes", config.staging_sector_bytes, 1);
  config.blocks_in_flight_per_worker =
      count(section, "blocks_in_flight_per_worker", config.blocks_in_flight_per_worker, 1, 64);
  config.look_ahead_most = count(section, "look_ahead_most", config.look_ahead_most, 0, 1 << 20);
  config.late_after_p99 =
      count(section, "late_after_p99", config.late_after_p99, 0, engine::kLateAfterMost);

  config.journal_bytes_max = section.bytes("journal_bytes_max", config.journal_bytes_max, 4096);
  config.promise_log_bytes_max =
      section.bytes("promise_log_bytes_max", config.promise_log_bytes_max, 4096);
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

}  // namespace

std::string text_of(const engine::EngineConfig& config) {
  // A setting that is added to EngineConfig and not here does not compile: each needs a name.
  const auto& [preset, policies, seed, credits, ready_window, generation_epochs, block_bytes,
               blocks_least, item_slot_bytes, corrupt_ratio_max, rank_timeout, read_attempts,
               delivery_attempts, retry_wait, share_streams, share_nodes, helper_nodes,
               workers_per_rank, workers_held_during_reads, hold_ingredients, count_staging,
               staging_bytes, staging_sector_bytes, blocks_in_flight_per_worker, look_ahead_most,
               late_after_p99, journal_bytes_max, promise_log_bytes_max] = config;
  std::string text;
  const auto put = [&text](std::string_view key, const auto& value) {
    text += fmt::format("{}={}\n", key, value_of(value));
  };
  put("preset", preset);
  engine::visit_policies(policies, [&](std::string_view name, const std::string& chosen) {
    put(fmt::format("policies.{}", name), chosen);
  });
  put("seed", seed);
  put("credits", credits);
  put("ready_window", ready_window);
  put("generation_epochs", generation_epochs);
  put("block_bytes", block_bytes);
  put("blocks_least", blocks_least);
  put("item_slot_bytes", item_slot_bytes);
  put("corrupt_ratio_max", corrupt_ratio_max);
  put("rank_timeout", rank_timeout);
  put("read_attempts", read_attempts);
  put("delivery_attempts", delivery_attempts);
  put("retry_wait", retry_wait);
  put("share_streams", share_streams);
  put("share_nodes", share_nodes);
  put("helper_nodes", helper_nodes);
  put("workers_per_rank", workers_per_rank);
  put("workers_held_during_reads", workers_held_during_reads);
  put("hold_ingredients", hold_ingredients);
  put("count_staging", count_staging);
  put("staging_bytes", staging_bytes);
  put("staging_sector_bytes", staging_sector_bytes);
  put("blocks_in_flight_per_worker", blocks_in_flight_per_worker);
  put("look_ahead_most", look_ahead_most);
  put("late_after_p99", late_after_p99);
  put("journal_bytes_max", journal_bytes_max);
  put("promise_log_bytes_max", promise_log_bytes_max);
  return text;
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
