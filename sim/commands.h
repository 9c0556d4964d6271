// The commands of batchflow-sim. Each command adds itself to the command line; once the line has
// been read, `action` holds what is to be done. To add a command, write it and name it in main.cpp.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace batchflow::sim {

// Returns an exit code (programs/output/exit_codes.h). Bad input is a ConfigError.
using Action = std::function<int()>;

void add_cache_command(CLI::App& app, Action& action);
void add_calibrate_command(CLI::App& app, Action& action);
void add_check_command(CLI::App& app, Action& action);
void add_compare_command(CLI::App& app, Action& action);
// Adds `faults` to the command `trace`.
void add_fault_trace_command(CLI::App& trace, Action& action);
void add_journal_command(CLI::App& app, Action& action);
// Adds `whatif` to the command `journal`.
void add_journal_whatif(CLI::App& journal, Action& action);
void add_policy_command(CLI::App& app, Action& action);
void add_replay_command(CLI::App& app, Action& action);
void add_run_command(CLI::App& app, Action& action);
void add_search_command(CLI::App& app, Action& action);
void add_sweep_command(CLI::App& app, Action& action);
void add_sweep_part_command(CLI::App& app, Action& action);
void add_trace_command(CLI::App& app, Action& action);
void add_whatif_command(CLI::App& app, Action& action);

}  // namespace batchflow::sim
