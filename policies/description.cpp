#include "policies/description.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/config_value.h"
#include "policies/registry.h"

namespace batchflow::policies {
namespace {

std::string bounds(const Parameter& parameter) {
  if (!has_bounds(parameter)) return "";
  return parameter.greatest >= 1e18
             ? fmt::format(", at least {}", parameter.least)
             : fmt::format(", {} to {}", parameter.least, parameter.greatest);
}

std::string indented(std::string_view help) {
  std::string text;
  while (!help.empty()) {
    const std::string_view line = first_line(help);
    text += fmt::format("  {}\n", line);
    help.remove_prefix(std::min(line.size() + 1, help.size()));
  }
  return text;
}

std::string row(std::string_view name, std::string_view value) {
  return fmt::format("  {:<18} {}\n", name, value);
}

}  // namespace

std::string_view type_name(Parameter::Type type) {
  switch (type) {
    case Parameter::Type::integer:
      return "integer";
    case Parameter::Type::number:
      return "number";
    case Parameter::Type::flag:
      return "true or false";
    case Parameter::Type::text:
      return "text";
  }
  return "";
}

bool has_bounds(const Parameter& parameter) {
  return parameter.type == Parameter::Type::integer || parameter.type == Parameter::Type::number;
}

std::string_view first_line(std::string_view help) {
  return help.substr(0, help.find('\n'));
}

bool may_starve(std::string_view kind, std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  const auto entries = policy_list().of_kind(engine::policy_name(kind).kind);
  return std::any_of(entries.begin(), entries.end(), [&](const engine::PolicyEntry* entry) {
    return entry->name == name && entry->may_starve;
  });
}

std::string describe_policies(const engine::PolicyList& list) {
  std::string text;
  for (std::size_t i = 0; i < engine::kPolicyKinds; ++i) {
    const auto kind = static_cast<engine::PolicyKind>(i);
    const auto entries = list.of_kind(kind);
    if (entries.empty()) continue;
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", engine::policy_kind_name(kind));
    for (const engine::PolicyEntry* entry : entries) {
      text += row(entry->name, fmt::format("{}{}", first_line(entry->help),
                                           entry->may_starve ? " May starve jobs." : ""));
    }
  }
  text += "\npreset (policies of all kinds, with the settings they need)\n";
  for (const engine::Preset* preset : engine::presets())
    text += row(preset->name, first_line(preset->help));
  return text;
}

Named find_named(const engine::PolicyList& list, std::string_view name) {
  constexpr std::string_view kPresetMark = "preset=";
  const bool preset_asked = name.starts_with(kPresetMark);
  if (name.find('=') != std::string_view::npos && !preset_asked) {
    return {{list.choose(name).entry}, {}};
  }
  if (preset_asked) name.remove_prefix(kPresetMark.size());
  Named found;
  std::vector<std::string_view> names;
  for (const engine::PolicyEntry* entry : list.entries()) {
    if (preset_asked) break;
    if (entry->name == name) found.policies.push_back(entry);
    names.push_back(entry->name);
  }
  for (const engine::Preset* preset : engine::presets()) {
    if (preset->name == name) found.presets.push_back(preset);
    names.push_back(preset->name);
  }
  if (!found.policies.empty() || !found.presets.empty()) return found;
  const std::string nearest = nearest_name(name, names);
  throw ConfigError(fmt::format("unknown {} '{}'; {}", preset_asked ? "preset" : "policy", name,
                                nearest.empty()
                                    ? "see policy list"
                                    : fmt::format("write '{}', or see policy list", nearest)));
}

std::string describe_parameter(const Parameter& parameter) {
  return fmt::format("{:<12}{} (default {}; {}{})", parameter.name, parameter.help,
                     parameter.default_value, type_name(parameter.type), bounds(parameter));
}

std::string describe_policy(const engine::PolicyEntry& entry) {
  std::string text = fmt::format("{}={}\n\n", engine::policy_kind_name(entry.kind()), entry.name);
  text += indented(entry.help);
  if (entry.clairvoyant) text += "  Knows the future, so it does not compete with the others.\n";
  if (entry.may_starve) text += "  May leave a job without data for ever.\n";
  text += entry.parameters.empty() ? "\nNo parameters.\n" : "\nParameters:\n";
  for (const Parameter& parameter : entry.parameters) {
    text += fmt::format("  {}\n", describe_parameter(parameter));
  }
  return text;
}

std::string describe_preset(const engine::Preset& preset) {
  engine::EngineConfig config;
  preset.apply(config);
  std::string text =
      fmt::format("preset={}\n\n{}\nPolicies:\n", preset.name, indented(preset.help));
  engine::visit_policies(config.policies, [&](std::string_view name, const std::string& chosen) {
    text += row(name, chosen);
  });
  text += "\nSettings:\n";
  text += row("share_streams", config.share_streams ? "true" : "false");
  text += row("workers_per_rank", fmt::format("{}", config.workers_per_rank));
  text += row("workers_held_during_reads", config.workers_held_during_reads ? "true" : "false");
  return text;
}

}  // namespace batchflow::policies
