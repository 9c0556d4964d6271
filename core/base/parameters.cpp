#include "core/base/parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <optional>

#include "core/base/check.h"
#include "core/base/config_value.h"

namespace batchflow {
namespace {

// What a value of this parameter must look like; empty if `value` is such a value.
std::string objection(const Parameter& parameter, std::string_view value) {
  const auto in_bounds = [&](double number) {
    return std::isfinite(number) && number >= parameter.least && number <= parameter.greatest;
  };
  const auto range = [&](std::string_view kind) {
    return parameter.greatest >= 1e18
               ? fmt::format("{} of at least {}", kind, parameter.least)
               : fmt::format("{} from {} to {}", kind, parameter.least, parameter.greatest);
  };
  switch (parameter.type) {
    case Parameter::Type::integer: {
      const auto number = parse_integer(value);
      const bool good = number && in_bounds(static_cast<double>(*number));
      return good ? "" : range("an integer");
    }
    case Parameter::Type::number: {
      const auto number = parse_number(value);
      return number && in_bounds(*number) ? "" : range("a number");
    }
    case Parameter::Type::flag:
      return parse_flag(value) ? "" : "true or false";
    case Parameter::Type::text:
      return value.empty() ? "a text" : "";
  }
  return "";
}

std::size_t index_of(std::span<const Parameter> declared, std::string_view name) {
  for (std::size_t i = 0; i < declared.size(); ++i) {
    if (declared[i].name == name) return i;
  }
  return declared.size();
}

[[noreturn]] void unknown_parameter(std::span<const Parameter> declared, std::string_view name) {
  if (declared.empty()) {
    throw ConfigError(fmt::format("unknown parameter '{}'; there are none to set", name));
  }
  std::vector<std::string_view> names;
  for (const Parameter& parameter : declared) names.push_back(parameter.name);
  const std::string nearest = nearest_name(name, names);
  throw ConfigError(nearest.empty()
                        ? fmt::format("unknown parameter '{}'; the parameters are {}", name,
                                      fmt::join(names, ", "))
                        : fmt::format("unknown parameter '{}'; write '{}' (the parameters are {})",
                                      name, nearest, fmt::join(names, ", ")));
}

}  // namespace

Parameters::Parameters(std::span<const Parameter> declared) : declared_(declared) {
  values_.reserve(declared.size());
  for (const Parameter& parameter : declared) values_.emplace_back(parameter.default_value);
}

void Parameters::set(std::string_view name, std::string_view value) {
  const std::size_t index = index_of(declared_, name);
  if (index == declared_.size()) unknown_parameter(declared_, name);
  const std::string wanted = objection(declared_[index], value);
  if (!wanted.empty()) {
    throw ConfigError(fmt::format("parameter '{}' cannot be '{}'; write {}", name, value, wanted));
  }
  values_[index] = value;
}

const std::string& Parameters::value(std::string_view name) const {
  const std::size_t index = index_of(declared_, name);
  BF_CHECK_MSG(index < declared_.size(), "a policy asked for a parameter it does not declare");
  return values_[index];
}

std::int64_t Parameters::integer(std::string_view name) const {
  const auto number = parse_integer(value(name));
  BF_CHECK_MSG(number, "the parameter is not an integer");
  return *number;
}

double Parameters::number(std::string_view name) const {
  const auto number = parse_number(value(name));
  BF_CHECK_MSG(number, "the parameter is not a number");
  return *number;
}

bool Parameters::flag(std::string_view name) const {
  const auto value_set = parse_flag(value(name));
  BF_CHECK_MSG(value_set, "the parameter is not a flag");
  return *value_set;
}

const std::string& Parameters::text(std::string_view name) const {
  return value(name);
}

}  // namespace batchflow
