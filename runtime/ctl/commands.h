// The commands of batchflowctl, by group. Each function adds its commands to the command line; the
// one that is given leaves in `action` what is to be done.
#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace batchflow::ctl {

using Action = std::function<int()>;  // answers the exit code

// `service` is the socket that was named, once the command line has been read.
void add_look_commands(CLI::App& app, const std::string& service, Action& action);
void add_policy_command(CLI::App& app, const std::string& service, Action& action);
void add_job_command(CLI::App& app, const std::string& service, Action& action);
// explain, doctor, journal
void add_reason_commands(CLI::App& app, const std::string& service, Action& action);
// drain, reload, quota, warm, pin, unpin, drop
void add_operate_commands(CLI::App& app, const std::string& service, Action& action);
// Lives a scenario of the simulator on a service that runs.
void add_run_command(CLI::App& app, const std::string& service, Action& action);
// Writes a plugin to begin with.
void add_step_command(CLI::App& app, Action& action);
void add_pack_command(CLI::App& app, Action& action);
void add_verify_command(CLI::App& app, const std::string& service, Action& action);

}  // namespace batchflow::ctl
