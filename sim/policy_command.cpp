#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "policies/plugin/load.h"
#include "policies/plugin/new_command.h"
#include "policies/registry.h"
#include "programs/output/output.h"
#include "programs/output/output_flags.h"
#include "programs/output/terminal.h"
#include "sim/commands.h"
#include "sim/descriptions.h"

namespace batchflow::sim {
namespace {

struct PolicyOptions {
  std::string name;
  output::OutputFlags outputs;
};

int answer(const output::OutputFlags& outputs, const std::string& text,
           const policies::Named& named) {
  outputs.check();
  if (outputs.wanted("json")) {
    outputs.write("json", policies_json(named));
  } else {
    outputs.write_text(text);
  }
  return 0;
}

// The plugins of BATCHFLOW_PLUGIN_PATH, and those that are loaded.
std::string describe_plugins() {
  std::string text;
  for (const plugin::PluginFile& file : plugin::found_files()) {
    const plugin::Footer& footer = file.footer();
    text += fmt::format("  {} {} brings {} ({}, {})\n", footer.name, footer.version,
                        fmt::join(footer.policies, ", "), file.path().string(), file.short_hash());
  }
  return text.empty() ? ""
                      : "\nplugins in BATCHFLOW_PLUGIN_PATH (loaded by --plugin NAME)\n" + text;
}

int list_policies(const PolicyOptions& options) {
  const auto entries = policies::policy_list().entries();
  policies::Named all{{entries.begin(), entries.end()}, {}};
  for (const engine::Preset* preset : engine::presets()) all.presets.push_back(preset);
  return answer(options.outputs,
                policies::describe_policies(policies::policy_list()) + describe_plugins(), all);
}

int show_policy(const PolicyOptions& options) {
  const policies::Named named = policies::find_named(policies::policy_list(), options.name);
  std::string text;
  const auto add = [&](const std::string& description) {
    text += (text.empty() ? "" : "\n") + description;
  };
  for (const engine::PolicyEntry* entry : named.policies) add(policies::describe_policy(*entry));
  for (const engine::Preset* preset : named.presets) add(policies::describe_preset(*preset));
  return answer(options.outputs, text, named);
}

CLI::App* add_question(CLI::App& command, Action& action, const char* name, const char* help,
                       int (*answer_it)(const PolicyOptions&)) {
  const auto options = std::make_shared<PolicyOptions>();
  CLI::App* question = command.add_subcommand(name, help);
  if (answer_it == show_policy) {
    question->add_option("NAME", options->name, "A name as in the list, kind=name or preset=name")
        ->required();
  }
  options->outputs.add(*question, "json", "JSON");
  question->callback([=, &action] { action = [=] { return answer_it(*options); }; });
  return question;
}

}  // namespace

void add_policy_command(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("policy", "List the policies and presets, show one, or write a new one");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  batchflow-sim policy show s3fifo\n"
      "  batchflow-sim policy show preset=default\n"
      "  batchflow-sim policy new mine --kind dispatch");
  add_question(*command, action, "list", "All policies by kind, and the presets", list_policies);
  add_question(*command, action, "show", "What a policy or preset does, and its parameters",
               show_policy);
  plugin::add_new_command(*command, action, [](const std::string& text) {
    output::write_file_atomically("-", text, output::check_interrupted);
  });
}

}  // namespace batchflow::sim
