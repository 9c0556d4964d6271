// batchflowctl shows what a service is doing and the data it serves, and operates it. It is for
// people and for programs.
//
// Exit codes: 0 done; 1 it could not be done, or the data is damaged; 2 bad usage; 130 interrupted.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "configs/reader/output.h"
#include "configs/reader/terminal.h"
#include "configs/reader/usage.h"
#include "core/config_error.h"
#include "runtime/ctl/commands.h"
#include "runtime/failpoint/failpoint.h"

namespace {

using namespace batchflow;

int run(int argc, char** argv) {
  CLI::App app("What a BatchFlow service is doing, and the data it serves.", "batchflowctl");
  app.require_subcommand(1);
  app.set_version_flag("--version", BATCHFLOW_VERSION);
  std::string service;
  app.add_option("--service", service,
                 "The service's socket; default: BATCHFLOW_SERVICE, else this user's service, else "
                 "the machine's");
  ctl::Action action;
  ctl::add_look_commands(app, service, action);
  ctl::add_reason_commands(app, service, action);
  ctl::add_policy_command(app, service, action);
  ctl::add_job_command(app, service, action);
  ctl::add_pack_command(app, action);
  ctl::add_step_command(app, action);
  ctl::add_verify_command(app, service, action);
  ctl::add_operate_commands(app, service, action);
  ctl::add_run_command(app, service, action);
  if (const auto status = command_line_ends(app, argc, argv)) return *status;
  if (const char* const failing = std::getenv("BATCHFLOW_FAILPOINTS"))
    configure_failpoints(failing);
  return action();
}

int run_and_report(int argc, char** argv) {
  const auto failed = [](const std::exception& error, int code) {
    say("batchflowctl: " + std::string(error.what()));
    return code;
  };
  try {
    return run(argc, argv);
  } catch (const ConfigError& error) {
    return failed(error, 2);
  } catch (const Interrupted& error) {
    return failed(error, 130);
  } catch (const OutputError& error) {
    if (error.error() == EPIPE) die_of_broken_pipe();
    return failed(error, 1);
  } catch (const std::exception& error) {
    return failed(error, 1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  catch_signals();
  const int code = run_and_report(argc, argv);
  report_failpoints();
  return code;
}
