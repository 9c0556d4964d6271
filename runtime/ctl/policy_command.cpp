#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "fmt/format.h"

#include "nlohmann/json.hpp"
#include "policies/description.h"
#include "policies/plugin/new_command.h"
#include "policies/registry.h"
#include "programs/output/output.h"
#include "programs/output/output_flags.h"
#include "programs/output/usage.h"
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

// The plugins that the service has loaded, and those that it does not let in.
std::string plugins_text(const json& plugins) {
  std::string text;
  for (const json& one : list(plugins, "plugins")) {
    std::string brings;
    for (const json& policy : list(one, "policies"))
      brings +=
          (brings.empty() ? "" : ", ") + (policy.is_string() ? policy.get<std::string>() : "");
    text += fmt::format("  {} {} ({}): {}\n", ctl::text(one, "name"), ctl::text(one, "version"),
                        ctl::text(one, "hash").substr(0, 12), brings);
  }
  if (!text.empty()) text = "\nplugins\n" + text;
  std::string gone;
  for (const json& one : list(plugins, "ejected"))
    gone += fmt::format("  {} of {}: exit {:.0f}, {} ({})\n", ctl::text(one, "policy"),
                        ctl::text(one, "plugin"), number(one, "exit"), ctl::text(one, "reason"),
                        ctl::text(one, "why"));
  if (!gone.empty()) text += "\nejected; the other policies of the plugin decide\n" + gone;
  std::string out;
  for (const json& one : list(plugins, "quarantined"))
    out += fmt::format("  {}: exit {:.0f}, {} ({})\n", ctl::text(one, "hash").substr(0, 12),
                       number(one, "exit"), ctl::text(one, "reason"), ctl::text(one, "why"));
  if (!out.empty()) out = "\nquarantined plugins (policy reset HASH lets them in again)\n" + out;
  return printable_lines(text + out);
}

std::string shadows_table(const json& answer) {
  std::vector<std::vector<std::string>> rows = {
      {"eviction", "policy", "requests", "would hit", "live hits", "would read", "live reads"}};
  for (const json& one : list(answer, "shadows")) {
    const double requests = number(one, "requests");
    const auto part = [&](const char* key) {
      return requests > 0 ? fmt::format("{:.1f} %", 100 * number(one, key) / requests) : "-";
    };
    rows.push_back({ctl::text(one, "eviction"), ctl::text(one, "policy"),
                    fmt::format("{:.0f}", requests), part("hits"), part("live_hits"),
                    bytes_text(number(one, "missed_bytes")),
                    bytes_text(number(one, "live_missed_bytes"))});
  }
  std::string named;
  for (const json& one : list(answer, "named"))
    named += (named.empty() ? "" : ", ") + (one.is_string() ? one.get<std::string>() : "");
  if (named.empty()) return "there is no shadow; begin one by policy shadow eviction=NAME\n";
  if (rows.size() == 1) return printable_lines(named + ": no request has come yet\n");
  return table(rows);
}

int list_policies(const output::OutputFlags& outputs, const std::string& service) {
  outputs.check();
  ServiceClient client(service);
  const json runs = object(client.ask("status"), "policies");
  const json plugins = client.ask("policy_plugins");
  if (!outputs.wanted("json")) {
    outputs.write_text(table(running_rows(runs)) + plugins_text(plugins) + "\nwhat could run\n" +
                       policies::describe_policies(policies::policy_list()));
    return 0;
  }
  json answer = {{"runs", runs},
                 {"policies", json::array()},
                 {"plugins", list(plugins, "plugins")},
                 {"ejected", list(plugins, "ejected")},
                 {"quarantined", list(plugins, "quarantined")}};
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

// What the service says in words.
std::string text_of_answer(const json& answer) {
  return answer.contains("text") && answer["text"].is_string() ? answer["text"].get<std::string>()
                                                               : std::string();
}

void add_list(CLI::App& command, const std::string& service, Action& action) {
  CLI::App* all = command.add_subcommand("list", "The policies that run now, and those that could")
                      ->fallthrough();
  const auto outputs = std::make_shared<output::OutputFlags>();
  outputs->add(*all, "json", "JSON");
  all->callback([&service, &action, outputs] {
    action = [&service, outputs] { return list_policies(*outputs, service); };
  });
}

void add_set(CLI::App& command, const std::string& service, Action& action) {
  CLI::App* set =
      command.add_subcommand("set", "Replace a policy that runs, or all of them; no batch is lost")
          ->fallthrough();
  const auto text = std::make_shared<std::string>();
  set->add_option("policy", *text, "kind=name[:parameter=value], or preset=name")->required();
  add_request(
      *set, service, action, "policy_set",
      [text] {
        return json{{"policy", *text}};
      },
      text_of_answer);
}

void add_install(CLI::App& command, const std::string& service, Action& action) {
  CLI::App* install =
      command
          .add_subcommand("install",
                          "Load a plugin, and let its policies decide; it is taken back if jobs "
                          "wait longer")
          ->fallthrough();
  const auto file = std::make_shared<std::string>();
  const auto uncertified = std::make_shared<bool>(false);
  const auto as_shadow = std::make_shared<bool>(false);
  const auto watch_s = std::make_shared<double>(60);
  const auto most_worse = std::make_shared<double>(5);
  install
      ->add_option("PLUGIN", *file,
                   "A file on the service's machine, with its certificate beside it\n"
                   "(batchflow-sim check PLUGIN.so --key)")
      ->required();
  install->add_flag("--shadow", *as_shadow,
                    "Its eviction policies are shown all requests, and decide nothing");
  install->add_flag("--uncertified", *uncertified,
                    "Load it without a certificate, too, in a process of its own");
  install
      ->add_option("--watch", *watch_s,
                   "For how many seconds jobs' waiting is watched (default: 60)")
      ->check(output::number_between(0, 86'400));
  install
      ->add_option("--most-worse", *most_worse,
                   "Percentage points by which jobs may wait more than before (default: 5)")
      ->check(output::number_between(0, 100));
  add_request(
      *install, service, action, "policy_install",
      [=] {
        std::error_code failed;
        // The service may run in another folder.
        const auto path = std::filesystem::absolute(*file, failed);
        const bool here = std::filesystem::is_regular_file(path, failed);
        return json{{"file", here ? path.lexically_normal().string() : *file},
                    {"uncertified", *uncertified},
                    {"shadow", *as_shadow},
                    {"watch_s", *watch_s},
                    {"most_worse", *most_worse}};
      },
      text_of_answer, true);
}

void add_shadow(CLI::App& command, const std::string& service, Action& action) {
  CLI::App* shadow =
      command
          .add_subcommand("shadow",
                          "Show what other eviction policies would have hit; they decide nothing")
          ->fallthrough();
  const auto shadowed = std::make_shared<std::vector<std::string>>();
  const auto stop = std::make_shared<bool>(false);
  shadow->add_option("policy", *shadowed,
                     "eviction=NAME or eviction.FORM=NAME, to be shown all requests from now on");
  shadow->add_flag("--stop", *stop, "Ends all of them");
  add_request(
      *shadow, service, action, "policy_shadow",
      [=] {
        return json{{"policies", *shadowed}, {"stop", *stop}};
      },
      shadows_table);
}

void add_reset(CLI::App& command, const std::string& service, Action& action) {
  CLI::App* reset =
      command.add_subcommand("reset", "Let a plugin that was ejected in again")->fallthrough();
  const auto hash = std::make_shared<std::string>();
  reset->add_option("HASH", *hash, "The hash of the plugin's file, or its first digits")
      ->required();
  add_request(
      *reset, service, action, "policy_reset",
      [hash] {
        return json{{"hash", *hash}};
      },
      text_of_answer);
}

}  // namespace

void add_policy_command(CLI::App& app, const std::string& service, Action& action) {
  CLI::App* command = app.add_subcommand("policy", "The policies that decide")->fallthrough();
  command->require_subcommand(1);
  add_list(*command, service, action);
  add_set(*command, service, action);
  add_install(*command, service, action);
  plugin::add_new_command(*command, action, [](const std::string& said_next) {
    output::write_file_atomically("-", said_next);
  });
  add_shadow(*command, service, action);
  add_reset(*command, service, action);
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
