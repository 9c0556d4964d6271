#include "programs/config/engine_settings.h"

#include <string>
#include <string_view>

#include "core/base/config_error.h"
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
  policies.allocation = section.text("allocation", policies.allocation);
  section.section("eviction", [&](ConfigSection& eviction) {
    for (std::size_t form = 0; form < kForms; ++form) {
      policies.eviction[form] =
          eviction.text(name_of(static_cast<Form>(form)), policies.eviction[form]);
    }
  });
  policies.selection = section.text("selection", policies.selection);
  policies.dispatch = section.text("dispatch", policies.dispatch);
  policies.scaling = section.text("scaling", policies.scaling);
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
  config.helper_nodes = count(section, "helper_nodes", config.helper_nodes, 0, 1 << 20);
  config.workers_per_rank = count(section, "workers_per_rank", config.workers_per_rank, 0, 4096);
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
  config.late_after_p99 = count(section, "late_after_p99", config.late_after_p99, 0, 1000);

  config.journal_bytes_max = section.bytes("journal_bytes_max", config.journal_bytes_max, 4096);
  config.promise_log_bytes_max =
      section.bytes("promise_log_bytes_max", config.promise_log_bytes_max, 4096);
  return config;
}

}  // namespace batchflow::config
