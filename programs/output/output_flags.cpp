#include "programs/output/output_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "core/base/check.h"
#include "core/base/config_value.h"
#include "programs/output/terminal.h"

namespace batchflow::output {

void OutputFlags::add(CLI::App& command, std::string name, std::string_view format) {
  Flag& flag = flags_.emplace_back(Flag{std::move(name), {}});
  command
      .add_flag(fmt::format("--{}{{-}}", flag.name), flag.paths,
                fmt::format("Write {} to standard output, or with =FILE to a file", format))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void OutputFlags::check(const std::string& input) const {
  for (const Flag& flag : flags_) {
    if (flag.paths.empty()) continue;
    const std::string& path = flag.paths.front();
    if (flag.paths.size() > 1) {
      throw ConfigError(fmt::format("--{} is given twice; keep one", flag.name));
    }
    require_writable(path);
    if (!input.empty() && same_file(path, input == "-" ? "/dev/stdin" : input)) {
      throw ConfigError(
          fmt::format("--{}={} would overwrite what is read; name another file", flag.name, path));
    }
    for (const Flag& other : flags_) {
      if (&other == &flag) break;
      if (other.paths.empty() || !same_file(other.paths.front(), path)) continue;
      throw ConfigError(
          fmt::format("--{} and --{} cannot both go to {}; write --{}=FILE", other.name, flag.name,
                      is_standard_output(path) ? "standard output" : path, flag.name));
    }
  }
}

std::string OutputFlags::path(std::string_view name) const {
  for (const Flag& flag : flags_) {
    if (flag.name == name) return flag.paths.empty() ? "" : flag.paths.front();
  }
  return "";
}

void OutputFlags::write(std::string_view name, std::string_view text) const {
  BF_CHECK(wanted(name));
  write_file_atomically(path(name), text, check_interrupted);
}

void OutputFlags::write(std::string_view name, const Content& content) const {
  BF_CHECK(wanted(name));
  write_file_atomically(path(name), content, check_interrupted);
}

void OutputFlags::write_text(std::string_view text) const {
  const bool taken = std::any_of(flags_.begin(), flags_.end(), [](const Flag& flag) {
    return !flag.paths.empty() && is_standard_output(flag.paths.front());
  });
  if (taken) {
    std::fwrite(text.data(), 1, text.size(), stderr);
  } else {
    write_file_atomically("-", text, check_interrupted);
  }
}

}  // namespace batchflow::output
