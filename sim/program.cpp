#include "sim/program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <filesystem>
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
constexpr AddCommand kCommands[] = {
    add_run_command,     add_replay_command,  add_sweep_command,  add_search_command,
    add_compare_command, add_check_command,   add_cache_command,  add_trace_command,
    add_policy_command,  add_journal_command, add_whatif_command, add_calibrate_command};

void set_version_flag(CLI::App& app) {
  app.set_version_flag("--version", version::version_text("batchflow-sim"));
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    set_version_flag(*command);
  }
}

// A command that programs run, and people do not type.
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

// A policy that is sketched in Python is called by Python, which calls this program's library.
[[noreturn]] void become_python(const std::string& sketch, const std::vector<std::string>& words) {
  std::error_code failed;
  const std::filesystem::path bin =
      std::filesystem::read_symlink("/proc/self/exe", failed).parent_path();
  std::filesystem::path library;
  for (const char* const folder :
       {"lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"}) {
    library = bin.parent_path() / folder / "libbatchflow_sim.so";
    if (std::filesystem::exists(library, failed)) break;
  }
  std::vector<std::string> all = {"python3", "-m", "batchflow.policy_sketch", library.string(),
                                  sketch};
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool is_it = words[i] == "--plugin=" + sketch;
    const bool names_it = words[i] == "--plugin" && i + 1 < words.size() && words[i + 1] == sketch;
    if (names_it) ++i;
    if (!is_it && !names_it) all.push_back(words[i]);
  }
  std::vector<char*> arguments;
  for (std::string& one : all) arguments.push_back(one.data());
  arguments.push_back(nullptr);
  execvp("python3", arguments.data());
  throw ConfigError(
      fmt::format("plugin {}: a sketch in Python needs python3, which cannot be started", sketch));
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
  add_sweep_part_command(app, action);
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
  for (const std::string& one : plugins) {
    if (one.ends_with(".py")) become_python(one, words);
    plugin::load(plugin::find_file(one));
  }
  return action();
}

}  // namespace

// What ends the run is said in one line, and by the exit code.
int run_program(const std::vector<std::string>& words) {
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

}  // namespace batchflow::sim
