// What a policy in another process was asked, in words, for its author.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace batchflow::apart {

// `next: 2 candidates at 1.250000 s` and a line for each of the first ones. Of a call that is cut,
// what can be read.
std::string question_text(std::span<const std::byte> call);

}  // namespace batchflow::apart
