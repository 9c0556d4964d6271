// Decides a recorded run once more: an engine with the recorded configuration gets the events of a
// journal, and its commands are compared with those that were recorded.
//
// `batchflow-sim journal replay` and the tests of both backends call it.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "core/engine/explain.h"
#include "core/engine/policy_list.h"
#include "core/log/journal.h"

namespace batchflow::config {

// `explain`, if given, is called for each decision of a policy, with the time of its step. Throws
// ConfigError where the recorded configuration cannot be read, and what `before_step` throws.
using ExplainAt = std::function<void(Instant, const engine::Decision&)>;
// `observe`, if given, is called with each step and its commands, which live until it returns.
using ObserveStep =
    std::function<void(const log::JournalReader::EngineStep&, std::span<const engine::Command>)>;
log::ReplayResult replay_journal(log::JournalReader& journal, const engine::PolicyList& policies,
                                 const std::function<void()>& before_step = {},
                                 const ExplainAt& explain = {}, const ObserveStep& observe = {});
// The text of a configuration from a journal, without its preset. The text has all settings, so the
// preset decides nothing; and the preset may be of a plugin that is not loaded.
std::string without_preset(std::string text);

}  // namespace batchflow::config
