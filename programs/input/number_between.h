// A check of options that take a number: CLI::Range lets `nan` pass.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

namespace batchflow::input {

inline auto number_between(double least, double most) {
  return [=](const std::string& text) {
    double value = 0;
    return CLI::detail::lexical_cast(text, value) && value >= least && value <= most
               ? std::string()
               : fmt::format("{} is not between {} and {}", text, least, most);
  };
}

}  // namespace batchflow::input
