// Generated access traces, as deep-learning jobs produce them: `gen:KIND[,parameter=value...]`; `?`
// and `&` may stand in place of the commas. The same text gives the same trace everywhere.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/base/parameters.h"
#include "traces/access_trace.h"

namespace batchflow::traces {

bool is_generator(std::string_view name);  // begins with `gen:`

// Throws ConfigError naming the nearest kind or parameter. REQUIRES: is_generator(spec)
AccessTrace generate_access_trace(const std::string& spec, const Progress& progress = {});

// The kind that a spec names, and its parameters: the text behind the kind, or the defaults. Throw
// ConfigError. REQUIRES: is_generator(spec)
std::string_view generator_kind(const std::string& spec);
Parameters generator_parameters(const std::string& spec, std::span<const Parameter> declared);

struct Generator {
  std::string_view name;  // the text behind `gen:`
  std::string_view help;
  std::span<const Parameter> parameters;
  AccessTrace (*generate)(const std::string& spec, const Parameters&, const Progress&);
};
std::span<const Generator> generators();

}  // namespace batchflow::traces
