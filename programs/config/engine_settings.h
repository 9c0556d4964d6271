// The engine's configuration: read from a configuration tree or from a text, written as a text, and
// given to an engine that replays a journal.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/engine/engine_config.h"
#include "core/engine/policy_list.h"
#include "core/log/journal.h"
#include "programs/config/config.h"

namespace batchflow::config {

// What `section` does not say is as in its preset.
engine::EngineConfig read_engine_config(ConfigSection& section);

// An engine's configuration as text, a `key=value` a line: what a journal carries, so that a replay
// makes the same engine.
std::string text_of(const engine::EngineConfig& config);

// Reads such a text through the checks that any configuration goes through. `name` is what errors
// call the text. Throws ConfigError.
engine::EngineConfig engine_config_of(std::string_view text, std::string_view name);

// Replays a journal with an engine that is configured as the recorded one was. Throws ConfigError
// where the recorded configuration cannot be read, and what `before_step` throws.
log::ReplayResult replay(log::JournalReader& journal, const engine::PolicyList& policies,
                         const std::function<void()>& before_step = {});

}  // namespace batchflow::config
