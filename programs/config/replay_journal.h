// Decides a recorded run once more: an engine with the recorded configuration gets the events of a
// journal, and its commands are compared with those that were recorded.
//
// `batchflow-sim journal replay` and the tests of both backends call it.
#pragma once

#include <functional>

#include "core/engine/policy_list.h"
#include "core/log/journal.h"

namespace batchflow::config {

// Throws ConfigError where the recorded configuration cannot be read, and what `before_step`
// throws.
log::ReplayResult replay_journal(log::JournalReader& journal, const engine::PolicyList& policies,
                                 const std::function<void()>& before_step = {});

}  // namespace batchflow::config
