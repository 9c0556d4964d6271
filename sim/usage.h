// Options that parse their own text.
#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace batchflow::sim {

// The share of a trace's lines that may be corrupt. Throws ConfigError.
double corrupt_limit_of(const std::string& text);
void add_corrupt_limit(CLI::App& command, std::string& text);

// Adds an option that takes a whole number from `least` to `most`.
void add_whole_number(CLI::App& command, const std::string& name, std::uint64_t& value,
                      std::uint64_t least, std::uint64_t most, const std::string& help);

}  // namespace batchflow::sim
