// Presets: a combination of policies under one name.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/types.h"

namespace batchflow::engine {

struct EngineConfig;

// A combination of policies with the settings that they need.
struct Preset {
  std::string_view name;
  std::string_view help;
  std::string_view allocation;
  std::array<std::string_view, kForms> eviction;
  std::string_view selection;
  std::string_view dispatch;
  std::string_view scaling;
  // As in EngineConfig.
  bool share_streams = true;
  bool share_nodes = true;
  std::uint32_t helper_nodes = 0;
  std::uint32_t workers_per_rank = 0;
  bool workers_held_during_reads = false;
  std::uint32_t late_after_p99 = 0;

  void apply(EngineConfig& config) const;
};
// In the order in which lists show them. Those of plugins come behind those that are built in.
std::span<const Preset* const> presets();
// Throws ConfigError if a built-in preset has the name.
void refuse_taken(const Preset& preset);
// `preset` stays valid. It replaces a preset of the same name that was added before.
// Throws as `refuse_taken`.
void add_preset(const Preset& preset);

}  // namespace batchflow::engine
