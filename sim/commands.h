// The commands of batchflow-sim. Each adds itself to the command line; what it adds sets `action`
// to what is to be done once the line has been read. To add one: write it, and name it in main.cpp.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace batchflow::sim {

// The exit code: 0 done, 1 the run found a failure. Bad input is a ConfigError.
using Action = std::function<int()>;

void add_cache_command(CLI::App& app, Action& action);
void add_check_command(CLI::App& app, Action& action);
void add_compare_command(CLI::App& app, Action& action);
void add_journal_command(CLI::App& app, Action& action);
void add_policy_command(CLI::App& app, Action& action);
void add_replay_command(CLI::App& app, Action& action);
void add_run_command(CLI::App& app, Action& action);
void add_sweep_command(CLI::App& app, Action& action);
void add_trace_command(CLI::App& app, Action& action);

}  // namespace batchflow::sim
