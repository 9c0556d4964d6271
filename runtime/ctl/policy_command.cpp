#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "nlohmann/json.hpp"
#include "policies/description.h"
#include "policies/registry.h"
#include "programs/output/output_flags.h"
#include "runtime/ctl/answer.h"
#include "runtime/ctl/commands.h"
#include "runtime/ctl/service_client.h"

namespace batchflow::ctl {
namespace {

using nlohmann::json;

// A row for each kind of policy, with the policy that the service runs now.
std::vector<std::vector<std::string>> running_rows(const json& runs) {
  std::vector<std::vector<std::string>> rows = {{"kind", "runs"}};
  for (const auto& [kind, name] : runs.items())
    rows.push_back({kind, name.is_string() ? name.get<std::string>() : ""});
  return rows;
}

int list_policies(const output::OutputFlags& outputs, const std::string& service) {
  outputs.check();
  const json runs = object(ServiceClient(service).ask("status"), "policies");
  if (!outputs.wanted("json")) {
    outputs.write_text(table(running_rows(runs)) + "\nwhat could run\n" +
                       policies::describe_policies(policies::policy_list()));
    return 0;
  }
  json answer = {{"runs", runs}, {"policies", json::array()}};
  for (const engine::PolicyEntry* entry : policies::policy_list().entries())
    answer["policies"].push_back({{"kind", engine::policy_kind_name(entry->kind())},
                                  {"name", entry->name},
                                  {"help", policies::first_line(entry->help)},
                                  {"clairvoyant", entry->clairvoyant},
                                  {"simulated_only", entry->simulated_only},
                                  {"may_starve", entry->may_starve}});
  outputs.write("json", answer.dump(2) + "\n");
  return 0;
}

}  // namespace

void add_policy_command(CLI::App& app, const std::string& service, Action& action) {
  CLI::App* command = app.add_subcommand("policy", "The policies that decide")->fallthrough();
  command->require_subcommand(1);
  CLI::App* all = command->add_subcommand("list", "The policies that run now, and those that could")
                      ->fallthrough();
  const auto outputs = std::make_shared<output::OutputFlags>();
  outputs->add(*all, "json", "JSON");
  all->callback([&service, &action, outputs] {
    action = [&service, outputs] { return list_policies(*outputs, service); };
  });
  CLI::App* set =
      command->add_subcommand("set", "Replace a policy that runs, or all of them; no batch is lost")
          ->fallthrough();
  const auto text = std::make_shared<std::string>();
  set->add_option("policy", *text, "kind=name[:parameter=value], or preset=name")->required();
  add_request(*set, service, action, "policy_set", [text] { return json{{"policy", *text}}; });
}

void add_job_command(CLI::App& app, const std::string& service, Action& action) {
  CLI::App* command = app.add_subcommand("job", "One job")->fallthrough();
  command->require_subcommand(1);
  CLI::App* end =
      command->add_subcommand("kill", "End a job; its ranks get the reason")->fallthrough();
  const auto name = std::make_shared<std::string>();
  end->add_option("name", *name, "As `jobs` names it")->required();
  add_request(*end, service, action, "job_kill", [name] { return json{{"job", *name}}; });
}

}  // namespace batchflow::ctl
