#include "policies/description.h"

#include <fmt/format.h>

#include "core/config_error.h"

namespace batchflow {
namespace {

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

std::string bounds(const Parameter& parameter) {
  const bool counts =
      parameter.type == Parameter::Type::integer || parameter.type == Parameter::Type::number;
  if (!counts) return "";
  return parameter.greatest >= 1e18
             ? fmt::format(", at least {}", parameter.least)
             : fmt::format(", {} to {}", parameter.least, parameter.greatest);
}

}  // namespace

std::string_view first_line(std::string_view help) {
  return help.substr(0, help.find('\n'));
}

std::string describe_policies(const PolicyList& list) {
  std::string text;
  for (std::size_t i = 0; i < kPolicyKinds; ++i) {
    const auto kind = static_cast<PolicyKind>(i);
    const auto entries = list.of_kind(kind);
    if (entries.empty()) continue;
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", policy_kind_name(kind));
    for (const PolicyEntry* entry : entries) {
      text += fmt::format("  {:<18}{}\n", entry->name, first_line(entry->help));
    }
  }
  return text;
}

std::vector<const PolicyEntry*> policies_named(const PolicyList& list, std::string_view name) {
  if (name.find('=') != std::string_view::npos) return {list.choose(name).entry};
  std::vector<const PolicyEntry*> found;
  std::vector<std::string_view> names;
  for (const PolicyEntry* entry : list.entries()) {
    if (entry->name == name) found.push_back(entry);
    names.push_back(entry->name);
  }
  if (!found.empty()) return found;
  const std::string nearest = nearest_name(name, names);
  throw ConfigError(fmt::format("unknown policy '{}'; {}", name,
                                nearest.empty()
                                    ? "see policy list"
                                    : fmt::format("write '{}', or see policy list", nearest)));
}

std::string describe_policy(const PolicyEntry& entry) {
  std::string text = fmt::format("{}={}\n\n", policy_kind_name(entry.kind()), entry.name);
  for (std::string_view rest = entry.help; !rest.empty();) {
    const std::string_view line = first_line(rest);
    text += fmt::format("  {}\n", line);
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  }
  if (entry.clairvoyant) text += "  Knows the future: a bound for the others.\n";
  text += entry.parameters.empty() ? "\nNo parameters.\n" : "\nParameters:\n";
  for (const Parameter& parameter : entry.parameters) {
    text += fmt::format("  {:<12}{} (default {}; {}{})\n", parameter.name, parameter.help,
                        parameter.default_value, type_name(parameter.type), bounds(parameter));
  }
  return text;
}

}  // namespace batchflow
