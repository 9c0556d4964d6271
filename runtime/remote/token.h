// What a remote job shows before anything else: a token that its operator has given it, in a file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace batchflow {

// One a line. Empty when the file has one that is long enough, and nobody but its owner can read
// it; else why not.
std::string read_tokens(const std::string& file, std::vector<std::string>& tokens);
std::string token_message(std::string_view token);

}  // namespace batchflow
