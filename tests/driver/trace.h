// Events and commands in words, for a person who repeats a run.
#pragma once

#include <string>

#include "core/engine/event.h"

namespace batchflow::test {

std::string text(const engine::Event& event);
std::string text(const engine::Command& command);

}  // namespace batchflow::test
