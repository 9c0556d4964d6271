// Why the engine does not serve a job: a word for programs, and a text that says what to do.
#pragma once

#include <string>
#include <string_view>

#include "core/engine/event.h"

namespace batchflow::service {

// With this answer a client asks again soon, here or of the next service.
inline constexpr std::string_view kNotYet = "not_yet";
inline constexpr std::string_view kEnding =
    "the service is ending and takes no new job; the next one will, so ask again";

std::string_view refusal_word(engine::Refusal why);
std::string refusal_text(const engine::Refuse& order);

}  // namespace batchflow::service
