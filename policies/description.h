// What `policy list` and `policy show` print, for people.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/engine/engine_config.h"
#include "core/engine/policy_list.h"

namespace batchflow::policies {

// All policies by kind, and the presets: a line each.
std::string describe_policies(const engine::PolicyList& list);

// What a name stands for: the policies of every kind, and the preset.
struct Named {
  std::vector<const engine::PolicyEntry*> policies;
  std::vector<const engine::Preset*> presets;
};
// `name`, or `kind=name` and `preset=name` for a single entry. Throws ConfigError naming the
// nearest name when there is none.
Named find_named(const engine::PolicyList& list, std::string_view name);

// Help and parameters.
std::string describe_policy(const engine::PolicyEntry& entry);
std::string describe_preset(const engine::Preset& preset);
std::string describe_parameter(const Parameter& parameter);  // a line, without its end

std::string_view type_name(Parameter::Type type);
bool has_bounds(const Parameter& parameter);

// False for policies that this program does not have. REQUIRES: a kind, not `preset`
bool may_starve(std::string_view kind, std::string_view text);

std::string_view first_line(std::string_view help);

}  // namespace batchflow::policies
