// The commands of batchflowctl, by group. Each function adds its commands to the command line. When
// the command line is read, the command that was given sets `action`.
#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace batchflow::ctl {

using Action = std::function<int()>;  // answers the exit code

// `service` is the socket that the user named, once the command line has been read.
void add_look_commands(CLI::App& app, const std::string& service, Action& action);
void add_policy_command(CLI::App& app, const std::string& service, Action& action);
void add_job_command(CLI::App& app, const std::string& service, Action& action);
// explain, doctor, journal
void add_reason_commands(CLI::App& app, const std::string& service, Action& action);
// drain, reload, quota, warm, pin, unpin, drop
void add_operate_commands(CLI::App& app, const std::string& service, Action& action);
// Runs a scenario of the simulator live, on a service.
void add_run_command(CLI::App& app, const std::string& service, Action& action);
// Writes a plugin for users to begin with.
void add_step_command(CLI::App& app, Action& action);
void add_pack_command(CLI::App& app, Action& action);
// Makes feeds, and sends records to them.
void add_feed_command(CLI::App& app, Action& action);
// Measures this node for the simulator.
void add_calibrate_command(CLI::App& app, const std::string& service, Action& action);
// Simulates the coming hours of a service.
void add_whatif_command(CLI::App& app, const std::string& service, Action& action);
void add_verify_command(CLI::App& app, const std::string& service, Action& action);

}  // namespace batchflow::ctl
