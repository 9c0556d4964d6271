// batchflowctl shows what a service is doing and the data it serves, and operates it. It is for
// people and for programs.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "core/base/config_value.h"
#include "programs/output/exit_codes.h"
#include "programs/output/output.h"
#include "programs/output/terminal.h"
#include "programs/output/usage.h"
#include "programs/version/version.h"
#include "runtime/ctl/commands.h"
#include "runtime/failpoint/failpoint.h"

namespace {

using namespace batchflow;
using namespace batchflow::ctl;

int run(int argc, char** argv) {
  CLI::App app("What a BatchFlow service is doing, and the data it serves.", "batchflowctl");
  app.require_subcommand(1);
  app.set_version_flag("--version", version::version_text("batchflowctl"));
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
  ctl::add_feed_command(app, action);
  ctl::add_step_command(app, action);
  ctl::add_verify_command(app, service, action);
  ctl::add_calibrate_command(app, service, action);
  ctl::add_operate_commands(app, service, action);
  ctl::add_run_command(app, service, action);
  ctl::add_whatif_command(app, service, action);
  if (const auto status = output::command_line_ends(app, argc, argv)) return *status;
  if (const char* const failing = std::getenv("BATCHFLOW_FAILPOINTS"))
    failpoint::configure_failpoints(failing);
  return action();
}

int run_and_report(int argc, char** argv) {
  const auto failed = [](const std::exception& error, int code) {
    output::say("batchflowctl: " + std::string(error.what()));
    return code;
  };
  try {
    return run(argc, argv);
  } catch (const ConfigError& error) {
    return failed(error, output::kBadInput);
  } catch (const output::Interrupted& error) {
    return failed(error, output::kInterrupted);
  } catch (const output::OutputError& error) {
    if (error.error() == EPIPE) output::die_of_broken_pipe();
    return failed(error, output::kFailed);
  } catch (const std::exception& error) {
    return failed(error, output::kFailed);
  }
}

}  // namespace

int main(int argc, char** argv) {
  output::open_standard_streams();
  output::catch_signals();
  const int code = run_and_report(argc, argv);
  failpoint::report_failpoints();
  return code;
}
