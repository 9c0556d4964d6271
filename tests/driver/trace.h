// Events and commands in words, for a person who repeats a run.
#pragma once

#include <string>

#include "core/event.h"

namespace batchflow::test {

std::string text(const Event& event);
std::string text(const Command& command);

}  // namespace batchflow::test
