// Command lines, the same in every program: options that take a number, and the messages for a line
// that was not understood.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Error;
}  // namespace CLI

namespace batchflow::output {

// Adds an option that takes a whole number from `least` to `most`.
void add_whole_number(CLI::App& command, const std::string& name, std::uint64_t& value,
                      std::uint64_t least, std::uint64_t most, const std::string& help);
// A check of an option that takes a number: CLI::Range lets `nan` pass.
std::function<std::string(const std::string&)> number_between(double least, double most);

// Parses `words`, the command line without the program's name; `help COMMAND` is understood too.
// Throws what CLI::App::parse throws.
void parse_command_line(CLI::App& app, std::vector<std::string> words);

// One line: what is wrong with `words`, and what was perhaps meant.
std::string usage_error(const CLI::App& app, const CLI::Error& error,
                        const std::vector<std::string>& words);

// Both at once, for a `main`. Returns the exit status where the words ask for help or a version, or
// are wrong; the text is printed then.
std::optional<int> command_line_ends(CLI::App& app, int argc, char** argv);

}  // namespace batchflow::output
