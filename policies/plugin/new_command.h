// The command `policy new` of batchflow-sim and of batchflowctl.
#pragma once

#include <memory>
#include <string>

#include "policies/plugin/new_plugin.h"

namespace batchflow::plugin {

// Adds it to `policies`, a CLI::App (this room includes no command lines). Once the command line
// has been read, `action` writes the plugin, and prints what to type next by print(text).
template <class App, class Action, class Print>
void add_new_command(App& policies, Action& action, Print print) {
  App* command = policies.add_subcommand(
      "new", "Write a plugin to begin with into the folder NAME, and print what to type next");
  const auto name = std::make_shared<std::string>();
  const auto kind =
      std::make_shared<std::string>(engine::policy_kind_name(engine::PolicyKind::eviction));
  command->add_option("NAME", *name, "What the policy and the plugin are called")->required();
  command->add_option("--kind", *kind,
                      "One of: " + engine::policy_kinds() + " (default: " + *kind + ")");
  command->callback([name, kind, print, &action] {
    action = [name, kind, print] {
      print(write_new_plugin(*name, engine::policy_kind(*kind)));
      return 0;
    };
  });
}

}  // namespace batchflow::plugin
