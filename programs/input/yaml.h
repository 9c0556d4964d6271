// Reads YAML into the configuration tree of programs/config/config.h.
//
// It reads the part of YAML that a configuration needs: maps, lists, single values, anchors with
// their aliases, and merge keys (`<<: *name`; keys of the map itself win). A key that is twice in a
// map, a tag, a second document, and a text beyond the limits are refused. No input crashes: every
// fault becomes a ConfigError with its line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "programs/config/config.h"

namespace batchflow::input {

// Enough for any configuration, and so little that a hostile one costs milliseconds.
struct YamlLimits {
  std::size_t bytes = 1 << 20;
  std::size_t depth = 64;
  std::size_t nodes = 100'000;  // an alias counts as what it stands for
};

// `name` is the name of the text in errors.
config::ConfigNode parse_yaml(std::string_view text, std::string_view name,
                              const YamlLimits& limits = {});

// A file by name; `-` is standard input.
config::ConfigNode read_yaml_file(const std::string& path, const YamlLimits& limits = {});

// The same for a program that must not wait: refuses standard input, a pipe, and whatever else is
// no regular file.
config::ConfigNode read_regular_yaml_file(const std::string& path);
// The text of such a file, not parsed.
std::string read_regular_file(const std::string& path);

// Applies one `path.to.key=value` of the command line (`--set`); the value is YAML, so that a list
// can be given too: `sizes=[1%, 10%]`.
void apply_override(config::ConfigNode& root, std::string_view assignment);

}  // namespace batchflow::input
