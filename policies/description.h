// What `policy list` and `policy show` print, for people.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/engine_config.h"
#include "core/policy_list.h"

namespace batchflow {

// All policies by kind, and the presets: a line each.
std::string describe_policies(const PolicyList& list);

// What a name stands for: the policies of every kind, and the preset.
struct Named {
  std::vector<const PolicyEntry*> policies;
  std::vector<const Preset*> presets;
};
// `name`, or `kind=name` and `preset=name` for a single entry. Throws ConfigError naming the
// nearest name when there is none.
Named find_named(const PolicyList& list, std::string_view name);

// Help and parameters.
std::string describe_policy(const PolicyEntry& entry);
std::string describe_preset(const Preset& preset);
std::string describe_parameter(const Parameter& parameter);  // a line, without its end

std::string_view type_name(Parameter::Type type);
bool has_bounds(const Parameter& parameter);

std::string_view first_line(std::string_view help);

}  // namespace batchflow
