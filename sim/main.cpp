// batchflow-sim: everything that can be learned about data service policies without a cluster.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <memory>
#include <new>
#include <sstream>

#include "core/base/config_value.h"
#include "policies/plugin/load.h"
#include "programs/output/exit_codes.h"
#include "programs/output/output.h"
#include "programs/output/terminal.h"
#include "programs/output/usage.h"
#include "programs/version/version.h"
#include "sim/commands.h"
#include "sim/plugin_check/phases.h"

namespace batchflow::sim {
namespace {

using AddCommand = void (*)(CLI::App&, Action&);
constexpr AddCommand kCommands[] = {add_run_command,     add_replay_command, add_sweep_command,
                                    add_compare_command, add_check_command,  add_cache_command,
                                    add_trace_command,   add_policy_command, add_journal_command};

void set_version_flag(CLI::App& app) {
  app.set_version_flag("--version", version::version_text("batchflow-sim"));
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    set_version_flag(*command);
  }
}

// What `check` runs of itself, for no one to type.
void add_phase_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("plugin-phase")->group("");
  const auto options = std::make_shared<PhaseOptions>();
  command->add_option("PHASE", options->phase)->required();
  command->add_option("PLUGIN", options->plugin)->required();
  command->add_option("SEEDS", options->seeds)->required();
  command->callback([options, &action] { action = [options] { return run_phase(*options); }; });
}

// Options of the program may stand behind the command's name.
void let_fall_through(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    command->fallthrough();
    let_fall_through(*command);
  }
}

int run(const std::vector<std::string>& words) {
  CLI::App app("BatchFlow simulator: compare the policies of a data service for deep learning",
               "batchflow-sim");
  app.require_subcommand(1);
  app.footer("`batchflow-sim COMMAND --help` tells more about a command.");
  std::vector<std::string> plugins;
  app.add_option("--plugin", plugins,
                 "FILE of a policy plugin, or NAME of one in BATCHFLOW_PLUGIN_PATH; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  Action action;
  for (AddCommand add : kCommands) add(app, action);
  add_phase_command(app, action);
  let_fall_through(app);
  set_version_flag(app);
  try {
    output::parse_command_line(app, words);
  } catch (const CLI::Success& asked) {
    std::ostringstream help;
    app.exit(asked, help, help);
    output::write_file_atomically("-", help.str(), output::check_interrupted);
    return 0;
  } catch (const CLI::Error& error) {
    output::say(output::usage_error(app, error, words));
    return output::kBadInput;
  }
  for (const std::string& one : plugins) plugin::load(plugin::find_file(one));
  return action();
}

// What ended the run, in one line, and the exit code that says the same.
int run_and_report(const std::vector<std::string>& words) {
  try {
    return run(words);
  } catch (const ConfigError& error) {
    output::say("batchflow-sim: " + std::string(error.what()));
    return output::kBadInput;
  } catch (const output::Interrupted&) {
    output::say("batchflow-sim: interrupted");
    return output::kInterrupted;
  } catch (const output::OutputError& error) {
    if (error.error() == EPIPE) output::die_of_broken_pipe();
    output::say("batchflow-sim: " + std::string(error.what()));
    return output::kFailed;
  } catch (const std::bad_alloc&) {
    output::say("batchflow-sim: not enough memory; use fewer --threads or a smaller trace");
    return output::kBadInput;
  } catch (const std::exception& error) {
    output::say("batchflow-sim: " + std::string(error.what()));
    return output::kFailed;
  }
}

}  // namespace
}  // namespace batchflow::sim

int main(int argc, char** argv) {
  batchflow::output::open_standard_streams();
  batchflow::output::catch_signals();
  return batchflow::sim::run_and_report({argv + (argc > 0), argv + argc});
}
