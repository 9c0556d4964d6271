// Scenarios in which a plugin's policies are measured against those that a service has by default.
#pragma once

#include <cstdint>

#include "nlohmann/json_fwd.hpp"
#include "policies/plugin/load.h"

namespace batchflow::sim {

// Runs the studies in configs/battery with the preset `default`, with that preset and one policy of
// the plugin in its kind, for each policy, and with each preset of the plugin.
nlohmann::json battery(const plugin::Plugin& plugin, std::uint64_t seeds);

}  // namespace batchflow::sim
