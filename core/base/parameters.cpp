#include "core/base/parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <optional>

#include "core/base/config_value.h"

namespace batchflow {
namespace {

// The value that this text says; none if it is not of the parameter's type or out of its bounds.
std::optional<Parameters::Value> value_of(const Parameter& parameter, std::string_view text) {
  const auto in_bounds = [&](double number) {
    return std::isfinite(number) && number >= parameter.least && number <= parameter.greatest;
  };
  Parameters::Value value{std::string(text)};
  switch (parameter.type) {
    case Parameter::Type::integer:
      if (const auto integer = parse_integer(text)) {
        value.integer = *integer;
        value.number = static_cast<double>(*integer);
        if (in_bounds(value.number)) return value;
      }
      return std::nullopt;
    case Parameter::Type::number:
      if (const auto number = parse_number(text); number && in_bounds(*number)) {
        value.number = *number;
        return value;
      }
      return std::nullopt;
    case Parameter::Type::flag:
      if (const auto flag = parse_flag(text)) {
        value.flag = *flag;
        return value;
      }
      return std::nullopt;
    case Parameter::Type::text:
      break;
  }
  return text.empty() ? std::nullopt : std::optional(value);
}

// What a value of this parameter looks like.
std::string description(const Parameter& parameter) {
  const auto range = [&](std::string_view kind) {
    return parameter.greatest >= 1e18
               ? fmt::format("{} of at least {}", kind, parameter.least)
               : fmt::format("{} from {} to {}", kind, parameter.least, parameter.greatest);
  };
  switch (parameter.type) {
    case Parameter::Type::integer:
      return range("an integer");
    case Parameter::Type::number:
      return range("a number");
    case Parameter::Type::flag:
      return "true or false";
    case Parameter::Type::text:
      break;
  }
  return "a text";
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
  for (const Parameter& parameter : declared) {
    const auto value = value_of(parameter, parameter.default_value);
    values_.push_back(value ? *value : Value{std::string(parameter.default_value)});
  }
}

void Parameters::set(std::string_view name, std::string_view value) {
  for (std::size_t i = 0; i < declared_.size(); ++i) {
    if (declared_[i].name != name) continue;
    const auto found = value_of(declared_[i], value);
    if (!found) {
      throw ConfigError(fmt::format("parameter '{}' cannot be '{}'; write {}", name, value,
                                    description(declared_[i])));
    }
    values_[i] = *found;
    return;
  }
  unknown_parameter(declared_, name);
}

}  // namespace batchflow
