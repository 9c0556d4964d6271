// batchflow-sim: everything that can be learned about data service policies without a cluster.
//
// Exit codes: 0 done, 1 the run found a failure, 2 bad input or usage, 130 interrupted.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <new>

#include "core/config_error.h"
#include "sim/commands.h"
#include "sim/terminal.h"

namespace batchflow::sim {
namespace {

constexpr int kBadInput = 2;
constexpr int kInterrupted = 130;

using AddCommand = void (*)(CLI::App&, Action&);
constexpr AddCommand kCommands[] = {add_cache_command, add_policy_command};

// The command the line is about, as far as it was understood.
const CLI::App& innermost(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : innermost(*chosen.front());
}

std::string name_of(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? app.get_name() : name_of(*parent) + " " + app.get_name();
}

// What was perhaps meant: the nearest option or command to the first word not understood.
std::string suggestion(const CLI::App& command) {
  const auto words = command.remaining();
  if (words.empty()) return "";
  const std::string word = words.front().substr(0, words.front().find('='));
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const CLI::App* other : command.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(other->get_name());
  }
  const std::string nearest =
      nearest_name(word, std::vector<std::string_view>(names.begin(), names.end()));
  return nearest.empty() ? "" : fmt::format("write '{}', or ", nearest);
}

int usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = innermost(app);
  const std::string name = name_of(command);
  std::string what = error.what();
  const auto words = command.remaining();
  if (error.get_name() == "RequiredError" && !words.empty()) {
    what = fmt::format("unknown command '{}'", words.front());
  }
  while (!what.empty() && (what.back() == '\n' || what.back() == '.')) what.pop_back();
  fmt::print(stderr, "{}: {}; {}see {} --help\n", name, what, suggestion(command), name);
  return kBadInput;
}

int run(int argc, char** argv) {
  CLI::App app("BatchFlow simulator: compare the policies of a data service for deep learning",
               "batchflow-sim");
  app.set_version_flag("--version", "batchflow-sim " BATCHFLOW_VERSION);
  app.require_subcommand(1);
  app.footer("`batchflow-sim COMMAND --help` tells more about a command.");
  Action action;
  for (AddCommand add : kCommands) add(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error);
  }
  catch_interrupts();
  try {
    return action();
  } catch (const ConfigError& error) {
    fmt::print(stderr, "batchflow-sim: {}\n", error.what());
    return kBadInput;
  } catch (const Interrupted&) {
    fmt::print(stderr, "batchflow-sim: interrupted\n");
    return kInterrupted;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr,
               "batchflow-sim: not enough memory; use fewer --threads or a smaller trace\n");
    return kBadInput;
  }
}

}  // namespace
}  // namespace batchflow::sim

int main(int argc, char** argv) {
  return batchflow::sim::run(argc, argv);
}
