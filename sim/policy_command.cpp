#include <CLI/CLI.hpp>
#include <memory>

#include "policies/registry.h"
#include "programs/output/output_flags.h"
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

int list_policies(const PolicyOptions& options) {
  const auto entries = policies::policy_list().entries();
  policies::Named all{{entries.begin(), entries.end()}, {}};
  for (const engine::Preset* preset : engine::presets()) all.presets.push_back(preset);
  return answer(options.outputs, policies::describe_policies(policies::policy_list()), all);
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
  CLI::App* command = app.add_subcommand("policy", "List the policies and presets, or show one");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  batchflow-sim policy show s3fifo\n"
      "  batchflow-sim policy show preset=default");
  add_question(*command, action, "list", "All policies by kind, and the presets", list_policies);
  add_question(*command, action, "show", "What a policy or preset does, and its parameters",
               show_policy);
}

}  // namespace batchflow::sim
