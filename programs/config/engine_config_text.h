// An engine's configuration as text, a `key=value` a line: what a journal carries, so that a replay
// makes the same engine. Read back through the checks that any configuration goes through.
#pragma once

#include <string>
#include <string_view>

#include "core/engine/engine_config.h"

namespace batchflow::config {

std::string text_of(const engine::EngineConfig& config);

// `name` is what errors call the text. Throws ConfigError.
engine::EngineConfig engine_config_of(std::string_view text, std::string_view name);

}  // namespace batchflow::config
