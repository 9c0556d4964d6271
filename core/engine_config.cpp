#include "core/engine_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace batchflow {

namespace {

constexpr std::array<std::string_view, kForms> kFormNames = {"encoded", "decoded", "prepared"};

void preset_default(EngineConfig& config) {
  config.policies = {"encoded-first",
                     {"minio", "minio", "refcount"},
                     "ready-first",
                     "earliest-deadline",
                     "look-ahead"};
  config.share_streams = true;
  config.share_nodes = true;
  config.helper_nodes = 8;
  config.late_after_p99 = 2;
  config.workers_per_rank = 0;
  config.workers_held_during_reads = false;
}

void preset_independent(EngineConfig& config) {
  // The page cache keeps what is stored, and nobody keeps anything else.
  config.policies = {"proportional:forms=encoded",
                     {"random", "random", "refcount"},
                     "strict",
                     "fifo",
                     "static:depth=8"};
  config.share_streams = false;
  config.share_nodes = false;
  config.helper_nodes = 0;
  config.late_after_p99 = 0;
  config.workers_per_rank = 4;
  config.workers_held_during_reads = true;
}

constexpr Duration kRankTimeoutLeast = std::chrono::milliseconds(1);
constexpr Duration kRetryWaitLeast = std::chrono::microseconds(1);

constexpr Preset kPresets[] = {
    {"default", "One service prepares for all jobs, the most urgent first.", preset_default},
    {"independent", "No BatchFlow: each job prepares alone, over a page cache.",
     preset_independent},
};

std::uint32_t count(ConfigSection& section, std::string_view key, std::uint32_t fallback,
                    std::int64_t least, std::int64_t greatest) {
  return static_cast<std::uint32_t>(section.integer(key, fallback, least, greatest));
}

void read_preset(ConfigSection& section, EngineConfig& config) {
  const std::string name = section.text("preset", config.preset);
  try {
    apply_preset(config, name);
  } catch (const ConfigError& error) {
    const std::string_view text = error.what();
    const std::size_t cut = text.find("; ");
    section.refuse("preset", text.substr(0, cut), text.substr(cut + 2));
  }
}

void read_policies(ConfigSection& section, PolicyTexts& policies) {
  policies.allocation = section.text("allocation", policies.allocation);
  section.section("eviction", [&](ConfigSection& eviction) {
    for (std::size_t form = 0; form < kForms; ++form) {
      policies.eviction[form] = eviction.text(kFormNames[form], policies.eviction[form]);
    }
  });
  policies.selection = section.text("selection", policies.selection);
  policies.dispatch = section.text("dispatch", policies.dispatch);
  policies.scaling = section.text("scaling", policies.scaling);
}

}  // namespace

EngineConfig::EngineConfig() {
  apply_preset(*this, "default");
}

std::span<const Preset> presets() {
  return kPresets;
}

void apply_preset(EngineConfig& config, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Preset& preset : kPresets) {
    if (preset.name == name) {
      config.preset = name;
      return preset.apply(config);
    }
    names.push_back(preset.name);
  }
  const std::string nearest = nearest_name(name, names);
  throw ConfigError(fmt::format("unknown preset '{}'; {}", name.substr(0, 60),
                                nearest.empty()
                                    ? fmt::format("write one of {}", fmt::join(names, ", "))
                                    : fmt::format("did you mean '{}'?", nearest)));
}

EngineConfig read_engine_config(ConfigSection& section) {
  EngineConfig config;
  read_preset(section, config);
  section.section("policies",
                  [&](ConfigSection& policies) { read_policies(policies, config.policies); });
  config.seed = section.seed("seed", config.seed);

  config.credits = count(section, "credits", config.credits, 1, kCreditsMost);
  config.ready_window = count(section, "ready_window", config.ready_window, 1, 64);
  config.generation_epochs = count(section, "generation_epochs", config.generation_epochs, 1, 254);
  config.block_bytes = section.bytes("block_bytes", config.block_bytes, 1);
  config.blocks_least = count(section, "blocks_least", config.blocks_least, 1, 1 << 20);
  config.item_slot_bytes = section.bytes("item_slot_bytes", config.item_slot_bytes, 1);
  config.corrupt_ratio_max = section.ratio("corrupt_ratio_max", config.corrupt_ratio_max);
  config.rank_timeout =
      section.duration("rank_timeout", config.rank_timeout, kRankTimeoutLeast, kDurationMost);

  config.read_attempts = count(section, "read_attempts", config.read_attempts, 1, 100);
  config.delivery_attempts = count(section, "delivery_attempts", config.delivery_attempts, 1, 100);
  config.retry_wait =
      section.duration("retry_wait", config.retry_wait, kRetryWaitLeast, kDurationMost);

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

void change_setting(EngineConfig& config, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  const std::string_view key = assignment.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : assignment.substr(equals + 1);
  const auto refuse = [&](std::string_view what) {
    throw ConfigError(fmt::format("setting '{}': {}", key.substr(0, 60), what));
  };
  if (key == "credits") {
    const auto credits = parse_integer(value);
    if (!credits || *credits < 1 || *credits > kCreditsMost)
      refuse("write a number from 1 to 1024");
    config.credits = static_cast<std::uint32_t>(*credits);
  } else if (key == "corrupt_ratio_max") {
    const auto ratio = parse_ratio(value);
    if (!ratio || ratio->parts > Ratio::kWhole) refuse("write a ratio, as 0.001 or 1%");
    config.corrupt_ratio_max = *ratio;
  } else if (key == "rank_timeout" || key == "retry_wait") {
    const auto duration = parse_duration(value);
    const Duration least = key == "rank_timeout" ? kRankTimeoutLeast : kRetryWaitLeast;
    if (!duration || *duration < least || *duration > kDurationMost) {
      refuse("write a duration, as 300s, of a year at most");
    }
    (key == "rank_timeout" ? config.rank_timeout : config.retry_wait) = *duration;
  } else if (key == "read_attempts") {
    const auto attempts = parse_integer(value);
    if (!attempts || *attempts < 1 || *attempts > 100) refuse("write a number from 1 to 100");
    config.read_attempts = static_cast<std::uint32_t>(*attempts);
  } else {
    refuse(
        "cannot be changed while the engine runs; write one of credits, corrupt_ratio_max, "
        "rank_timeout, retry_wait, read_attempts");
  }
}

}  // namespace batchflow
