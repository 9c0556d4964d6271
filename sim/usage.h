// What is said of a command line that was not understood, and options that read their own text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
class Error;
}  // namespace CLI

namespace batchflow::sim {

// Parses `words`, the command line without the program's name; `help COMMAND` is understood too.
// Throws what CLI::App::parse throws.
void parse_command_line(CLI::App& app, std::vector<std::string> words);

// One line: what is wrong with `words`, and what was perhaps meant.
std::string usage_error(const CLI::App& app, const CLI::Error& error,
                        const std::vector<std::string>& words);

// The share of a trace's lines that may be corrupt. Throws ConfigError.
double corrupt_limit_of(const std::string& text);
void add_corrupt_limit(CLI::App& command, std::string& text);

// An option that takes a whole number from `least` to `most`.
void add_whole_number(CLI::App& command, const std::string& name, std::uint64_t& value,
                      std::uint64_t least, std::uint64_t most, const std::string& help);

}  // namespace batchflow::sim
