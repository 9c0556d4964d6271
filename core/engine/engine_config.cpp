#include "core/engine/engine_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <vector>

#include "core/base/config_value.h"

namespace batchflow::engine {
namespace {

// A setting that may change while the engine runs. `set` answers false for a value that is none.
struct Changeable {
  std::string_view key;
  std::string_view what;
  bool (*set)(EngineConfig& config, std::string_view value);
};

template <auto kMember, std::int64_t kLeast, std::int64_t kMost>
bool set_count(EngineConfig& config, std::string_view value) {
  const auto count = parse_integer(value);
  if (!count || *count < kLeast || *count > kMost) return false;
  config.*kMember = static_cast<std::uint32_t>(*count);
  return true;
}

template <auto kMember>
bool set_flag(EngineConfig& config, std::string_view value) {
  const auto flag = parse_flag(value);
  if (flag) config.*kMember = *flag;
  return flag.has_value();
}

bool set_duration(Duration& member, Duration least, std::string_view value) {
  const auto duration = parse_duration(value);
  if (!duration || *duration < least || *duration > kDurationMost) return false;
  member = *duration;
  return true;
}

bool set_corrupt_ratio_max(EngineConfig& config, std::string_view value) {
  const auto ratio = parse_ratio(value);
  if (!ratio || ratio->parts > Ratio::kWhole) return false;
  config.corrupt_ratio_max = *ratio;
  return true;
}

constexpr Changeable kChangeable[] = {
    {"credits", "a number from 1 to 1024", set_count<&EngineConfig::credits, 1, kCreditsMost>},
    {"corrupt_ratio_max", "a ratio, as 0.001 or 1%", set_corrupt_ratio_max},
    {"rank_timeout", "a duration, as 300s, of a year at most",
     [](EngineConfig& config, std::string_view value) {
       return set_duration(config.rank_timeout, kRankTimeoutLeast, value);
     }},
    {"retry_wait", "a duration, as 10ms, of a year at most",
     [](EngineConfig& config, std::string_view value) {
       return set_duration(config.retry_wait, kRetryWaitLeast, value);
     }},
    {"read_attempts", "a number from 1 to 100", set_count<&EngineConfig::read_attempts, 1, 100>},
    {"share_streams", "true or false", set_flag<&EngineConfig::share_streams>},
    {"share_nodes", "true or false", set_flag<&EngineConfig::share_nodes>},
    {"helper_nodes", "a number up to 1048576",
     set_count<&EngineConfig::helper_nodes, 0, kHelperNodesMost>},
    {"workers_per_rank", "a number up to 4096",
     set_count<&EngineConfig::workers_per_rank, 0, kWorkersPerRankMost>},
    {"workers_held_during_reads", "true or false",
     set_flag<&EngineConfig::workers_held_during_reads>},
    {"late_after_p99", "a number up to 1000",
     set_count<&EngineConfig::late_after_p99, 0, kLateAfterMost>},
};

}  // namespace

EngineConfig::EngineConfig() {
  apply_preset(*this, "default");
}

void apply_preset(EngineConfig& config, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Preset* preset : presets()) {
    if (preset->name == name) {
      config.preset = name;
      return preset->apply(config);
    }
    names.push_back(preset->name);
  }
  const std::string nearest = nearest_name(name, names);
  throw ConfigError(fmt::format("unknown preset '{}'; {}", name.substr(0, 60),
                                nearest.empty()
                                    ? fmt::format("write one of {}", fmt::join(names, ", "))
                                    : fmt::format("did you mean '{}'?", nearest)));
}

void change_setting(EngineConfig& config, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  const std::string_view key = assignment.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : assignment.substr(equals + 1);
  std::vector<std::string_view> keys;
  for (const Changeable& one : kChangeable) {
    keys.push_back(one.key);
    if (one.key != key) continue;
    if (one.set(config, value)) return;
    throw ConfigError(fmt::format("setting '{}': write {}", key, one.what));
  }
  throw ConfigError(
      fmt::format("setting '{}': cannot be changed while the engine runs; write one of {}",
                  key.substr(0, 60), fmt::join(keys, ", ")));
}

}  // namespace batchflow::engine
