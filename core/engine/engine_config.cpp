#include "core/engine/engine_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "core/base/config_value.h"

namespace batchflow::engine {

EngineConfig::EngineConfig() {
  apply_preset(*this, "default");
}

void apply_preset(EngineConfig& config, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Preset& preset : presets()) {
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

}  // namespace batchflow::engine
