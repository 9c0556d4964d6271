// Tokens. A remote job gets one from the service's operator, in a file, and shows it before
// anything else.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace batchflow::remote {

// Reads a file with a token on each line. Answers what is wrong: there is none, one is too short,
// or others than its owner can read the file. Empty: nothing.
std::string read_tokens(const std::string& file, std::vector<std::string>& tokens);
std::string token_message(std::string_view token);

}  // namespace batchflow::remote
