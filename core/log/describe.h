// Events and commands as text for people: explanations, logs, the first difference of a replay.
#pragma once

#include <string>

#include "core/engine/event.h"

namespace batchflow::log {

// `BatchConsumed job=3 rank=0 step=17 compute=0.250000000s`. A list is cut after eight entries, and
// its length is printed.
std::string describe(const engine::Event& event);
std::string describe(const engine::Command& command);

}  // namespace batchflow::log
