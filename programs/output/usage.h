// The messages for a command line that was not understood, the same in every program.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Error;
}  // namespace CLI

namespace batchflow::output {

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
