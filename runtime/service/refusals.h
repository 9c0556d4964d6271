// Why the engine does not serve a job, in a word for programs and a text that says what to do.
#pragma once

#include <string>
#include <string_view>

#include "core/event.h"

namespace batchflow {

std::string_view refusal_word(Refusal why);
std::string refusal_text(const Refuse& order);

}  // namespace batchflow
