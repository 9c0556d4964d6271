// Compresses what is written to a file with a name that ends in .zst or .gz.
#pragma once

#include <string>
#include <string_view>

namespace batchflow::traces {

// The bytes that a file of that name holds. The same text gives the same bytes.
std::string encoded_for(std::string_view path, std::string text);

}  // namespace batchflow::traces
