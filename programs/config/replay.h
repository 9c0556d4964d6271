// Replays a journal with an engine that is configured as the recorded one was.
#pragma once

#include <functional>

#include "core/engine/policy_list.h"
#include "core/log/journal.h"

namespace batchflow::config {

// Throws ConfigError where the recorded configuration cannot be read, and what `before_step`
// throws.
log::ReplayResult replay(log::JournalReader& journal, const engine::PolicyList& policies,
                         const std::function<void()>& before_step = {});

}  // namespace batchflow::config
