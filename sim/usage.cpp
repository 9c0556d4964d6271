#include "sim/usage.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "core/base/config_error.h"
#include "core/base/config_value.h"

namespace batchflow::sim {

double corrupt_limit_of(const std::string& text) {
  const auto limit = parse_ratio(text);
  if (!limit || limit->parts > Ratio::kWhole) {
    throw ConfigError(
        fmt::format("--corrupt-limit '{}' is not a share of the lines; write 1% or 0.01", text));
  }
  return static_cast<double>(limit->parts) / static_cast<double>(Ratio::kWhole);
}

void add_corrupt_limit(CLI::App& command, std::string& text) {
  command
      .add_option("--corrupt-limit", text,
                  "Stop when a larger share of the lines cannot be read (default: 1%)")
      ->type_name("SHARE");
}

void add_whole_number(CLI::App& command, const std::string& name, std::uint64_t& value,
                      std::uint64_t least, std::uint64_t most, const std::string& help) {
  const auto read = [=, &value](const std::string& text) {
    const auto number = parse_unsigned(text);
    if (!number || *number < least || *number > most) {
      throw CLI::ValidationError(
          name,
          fmt::format("'{}' is wrong; write a whole number from {} to {}", text, least, most));
    }
    value = *number;
  };
  command.add_option_function<std::string>(name, read, help)->type_name("N");
}

}  // namespace batchflow::sim
