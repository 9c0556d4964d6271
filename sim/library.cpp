// The simulator's commands as a library, for policies that are sketched in Python
// (python/batchflow/policy_sketch.py): all of them but those that need a simulated world.
#include <exception>
#include <string>

#include "policies/plugin/load.h"
#include "policies/plugin/policy_host.h"
#include "programs/output/terminal.h"
#include "sim/program.h"

extern "C" {

// Does what the program does with these words, with the policies of a plugin that is in no file.
// `from`: what they are named behind `@`. Returns an exit code.
BF_POLICY_EXPORT int batchflow_sim_main(int argc, const char* const* argv, const char* from,
                                        const bf_policy_plugin* (*plugin)(const bf_policy_host*)) {
  using namespace batchflow;
  try {
    plugin::load_tables(from, plugin(&plugin::policy_host()));
  } catch (const std::exception& error) {
    output::say(std::string("batchflow-sim: ") + error.what());
    return 2;
  }
  return sim::run_program({argv, argv + argc});
}

}  // extern "C"
