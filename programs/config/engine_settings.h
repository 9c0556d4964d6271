// The engine's configuration: read from a configuration tree or from a text, checked, and written
// as a text.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>

#include "core/engine/engine_config.h"
#include "core/engine/policy_texts.h"
#include "programs/config/config.h"

namespace batchflow::config {

// A key that `section` lacks has the value of its preset.
engine::EngineConfig read_engine_config(ConfigSection& section);

// Calls `check` with each of `policies`, and adds the line of `tree` that names the policy to the
// ConfigError that it throws. The engine's section of `tree` is `engine`.
using PolicyCheck = std::function<void(std::string_view name, const std::string& text)>;
void check_policies(const engine::PolicyTexts& policies, const ConfigNode& tree,
                    const PolicyCheck& check);

// An engine's configuration as text, one `key=value` a line. A journal carries it, so that a replay
// makes the same engine.
std::string text_of(const engine::EngineConfig& config);
// Calls visit(key, value) for each line of such a text.
template <class Visit>
void visit_settings(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t equals = std::min(line.find('='), line.size());
    visit(line.substr(0, equals), line.substr(std::min(line.size(), equals + 1)));
  }
}

// Reads such a text through the checks that any configuration goes through. `name` is what errors
// call the text. Throws ConfigError.
engine::EngineConfig engine_config_of(std::string_view text, std::string_view name);

}  // namespace batchflow::config
