#include "sim/descriptions.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "traces/generator.h"

namespace batchflow::sim {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(std::span<const Parameter> parameters) {
  Json list = Json::array();
  for (const Parameter& parameter : parameters) {
    Json described = {{"name", parameter.name},
                      {"type", policies::type_name(parameter.type)},
                      {"default", parameter.default_value},
                      {"help", parameter.help}};
    if (policies::has_bounds(parameter)) {
      described["least"] = parameter.least;
      described["greatest"] = parameter.greatest;
    }
    list.push_back(std::move(described));
  }
  return list;
}

Json json_of(const engine::PolicyEntry& entry) {
  return {{"kind", engine::policy_kind_name(entry.kind())},
          {"name", entry.name},
          {"help", entry.help},
          {"clairvoyant", entry.clairvoyant},
          {"simulated_only", entry.simulated_only},
          {"may_starve", entry.may_starve},
          {"parameters", json_of(entry.parameters)}};
}

Json json_of(const engine::Preset& preset) {
  engine::EngineConfig config;
  preset.apply(config);
  Json policies;
  engine::visit_policies(config.policies, [&](std::string_view name, const std::string& text) {
    // As a scenario has them: eviction with a key for each form.
    const std::size_t dot = name.find('.');
    const std::string kind(name.substr(0, dot));
    Json& at = dot == std::string_view::npos ? policies[kind]
                                             : policies[kind][std::string(name.substr(dot + 1))];
    at = text;
  });
  return {{"name", preset.name},
          {"help", preset.help},
          {"policies", policies},
          {"settings",
           {{"share_streams", config.share_streams},
            {"workers_per_rank", config.workers_per_rank},
            {"workers_held_during_reads", config.workers_held_during_reads}}}};
}

}  // namespace

std::string policies_json(const policies::Named& named) {
  Json json;
  json["policies"] = Json::array();
  for (const engine::PolicyEntry* entry : named.policies)
    json["policies"].push_back(json_of(*entry));
  json["presets"] = Json::array();
  for (const engine::Preset* preset : named.presets) json["presets"].push_back(json_of(*preset));
  return json.dump(2) + "\n";
}

std::string generators_json() {
  Json json;
  json["generators"] = Json::array();
  for (const traces::Generator& generator : traces::generators()) {
    json["generators"].push_back({{"name", generator.name},
                                  {"help", generator.help},
                                  {"parameters", json_of(generator.parameters)}});
  }
  return json.dump(2) + "\n";
}

std::string describe_generators() {
  std::string text = "Generated traces: gen:KIND,parameter=value,... (`?` and `&` do as commas)\n";
  for (const traces::Generator& generator : traces::generators()) {
    text += fmt::format("\n  gen:{:<10}{}\n", generator.name, generator.help);
    for (const Parameter& parameter : generator.parameters) {
      text += fmt::format("    {}\n", policies::describe_parameter(parameter));
    }
  }
  text += "\nExample: gen:perm,n=100000,epochs=5,jobs=4\n";
  return text;
}

}  // namespace batchflow::sim
