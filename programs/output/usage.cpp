#include "programs/output/usage.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "core/base/config_value.h"
#include "programs/output/exit_codes.h"
#include "programs/output/terminal.h"

namespace batchflow::output {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

const CLI::App* command_named(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : commands_of(app)) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

// The command that the line means, as far as it was understood.
const CLI::App& innermost(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : innermost(*chosen.front());
}

std::string name_of(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? app.get_name() : name_of(*parent) + " " + app.get_name();
}

const CLI::Option* flag_named(const CLI::App& command, const std::string& name) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->check_name(name) && option->get_expected_max() == 0) return option;
  }
  return nullptr;
}

// The word before `word`; empty when it is the first.
std::string word_before(const std::vector<std::string>& words, const std::string& word) {
  const auto found = std::find(words.begin(), words.end(), word);
  return found == words.begin() || found == words.end() ? "" : found[-1];
}

std::string nearest_option_or_command(const CLI::App& command, const std::string& word) {
  std::vector<std::string> names;
  // Options of a command above are understood here, too, where it falls through.
  const CLI::App* at = &command;
  for (bool is_more = true; is_more && at != nullptr; at = at->get_parent()) {
    for (const CLI::Option* option : at->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    is_more = at->get_fallthrough();
  }
  for (const CLI::App* other : commands_of(command)) names.push_back(other->get_name());
  return nearest_name(word.substr(0, word.find('=')),
                      std::vector<std::string_view>(names.begin(), names.end()));
}

// What the first word that was not understood was perhaps meant to be.
std::string meant(const CLI::App& command, const std::string& word,
                  const std::vector<std::string>& words) {
  if (command_named(command, word) != nullptr) return command.get_name() + " " + word;
  for (const CLI::App* other : commands_of(command)) {
    if (command_named(*other, word) != nullptr) return other->get_name() + " " + word;
  }
  const std::string before = word_before(words, word);
  if (word.find('=') != std::string::npos && before.starts_with("gen:")) return before + "," + word;
  if (!word.starts_with('-') && flag_named(command, before) != nullptr) return before + "=" + word;
  return nearest_option_or_command(command, word);
}

}  // namespace

void add_whole_number(CLI::App& command, const std::string& name, std::uint64_t& value,
                      std::uint64_t least, std::uint64_t most, const std::string& help) {
  const auto read = [=, &value](const std::string& text) {
    const auto number = parse_unsigned(text);
    if (!number || *number < least || *number > most) {
      throw CLI::ValidationError(
          name,
          fmt::format("'{}' is wrong; write a whole number from {} to {}", text, least, most));
    }
    value = *number;
  };
  command.add_option_function<std::string>(name, read, help)->type_name("N");
}

std::function<std::string(const std::string&)> number_between(double least, double most) {
  return [=](const std::string& text) {
    double value = 0;
    return CLI::detail::lexical_cast(text, value) && value >= least && value <= most
               ? std::string()
               : fmt::format("{} is not between {} and {}", text, least, most);
  };
}

void parse_command_line(CLI::App& app, std::vector<std::string> words) {
  for (const std::string& word : words) {
    if (word.starts_with("--") && word.find('=') == word.size() - 1) {
      throw CLI::ConversionError(
          fmt::format("{} is followed by nothing; write {}VALUE", word, word),
          CLI::ExitCodes::ConversionError);
    }
  }
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    const CLI::App* command = &app;
    for (const std::string& word : words)
      command = command ? command_named(*command, word) : nullptr;
    if (command != nullptr) words.push_back("--help");  // else the parser says what is wrong
  }
  std::reverse(words.begin(), words.end());
  app.parse(std::move(words));
}

std::string usage_error(const CLI::App& app, const CLI::Error& error,
                        const std::vector<std::string>& words) {
  const CLI::App& command = innermost(app);
  const std::string name = name_of(command);
  const auto unknown = app.remaining(true);
  std::string what = error.what();
  while (!what.empty() && (what.back() == '\n' || what.back() == '.')) what.pop_back();
  std::string remedy;
  if (error.get_name() == "RequiredError" && !commands_of(command).empty()) {
    what = "a subcommand is missing";
    for (const CLI::App* nested : commands_of(command)) {
      remedy += fmt::format("{}'{}'", remedy.empty() ? "write " : " or ", nested->get_name());
    }
    remedy += ", or ";
  }
  if (!unknown.empty()) {
    const bool command_wanted = !commands_of(command).empty();
    what =
        fmt::format("{} '{}'", command_wanted ? "unknown command" : "unexpected", unknown.front());
    const std::string nearest = meant(command, unknown.front(), words);
    remedy = nearest.empty() ? "" : fmt::format("write '{}', or ", nearest);
  }
  return fmt::format("{}: {}; {}see {} --help", name, what, remedy, name);
}

std::optional<int> command_line_ends(CLI::App& app, int argc, char** argv) {
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  try {
    parse_command_line(app, words);
  } catch (const CLI::Success& asked) {
    return app.exit(asked);
  } catch (const CLI::Error& error) {
    say(usage_error(app, error, words));
    return kBadInput;
  }
  return std::nullopt;
}

}  // namespace batchflow::output
