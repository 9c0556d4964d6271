#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "policies/description.h"
#include "policies/registry.h"
#include "sim/commands.h"
#include "sim/output_file.h"

namespace batchflow::sim {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const PolicyEntry& entry) {
  Json parameters = Json::array();
  for (const Parameter& parameter : entry.parameters) {
    parameters.push_back(
        {{"name", parameter.name}, {"default", parameter.default_value}, {"help", parameter.help}});
  }
  return {{"kind", policy_kind_name(entry.kind())},
          {"name", entry.name},
          {"help", entry.help},
          {"clairvoyant", entry.clairvoyant},
          {"parameters", parameters}};
}

void print(std::span<const PolicyEntry* const> entries, const std::string& text,
           const std::string& json_path) {
  if (json_path.empty()) {
    std::fputs(text.c_str(), stdout);
    return;
  }
  Json json;
  json["policies"] = Json::array();
  for (const PolicyEntry* entry : entries) json["policies"].push_back(json_of(*entry));
  OutputFile(json_path).write(json.dump(2) + "\n");
}

int list_policies(const std::string& json_path) {
  print(policy_list().entries(), describe_policies(policy_list()), json_path);
  return 0;
}

int show_policy(const std::string& name, const std::string& json_path) {
  const auto entries = policies_named(policy_list(), name);
  std::string text;
  for (const PolicyEntry* entry : entries) {
    text += (text.empty() ? "" : "\n") + describe_policy(*entry);
  }
  print(entries, text, json_path);
  return 0;
}

}  // namespace

void add_policy_command(CLI::App& app, Action& action) {
  struct Options {
    std::string name;
    std::string json;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("policy", "List the policies, or show one");
  command->require_subcommand(1);
  command->footer("Example:\n  batchflow-sim policy show s3fifo");
  constexpr const char* kJsonHelp = "Write JSON to standard output, or with =FILE to a file";
  CLI::App* list = command->add_subcommand("list", "All policies by kind");
  list->add_flag("--json{-}", options->json, kJsonHelp);
  list->callback(
      [options, &action] { action = [options] { return list_policies(options->json); }; });
  CLI::App* show = command->add_subcommand("show", "What a policy does, and its parameters");
  show->add_option("NAME", options->name, "A name as in the list, or kind=name")->required();
  show->add_flag("--json{-}", options->json, kJsonHelp);
  show->callback([options, &action] {
    action = [options] { return show_policy(options->name, options->json); };
  });
}

}  // namespace batchflow::sim
