// Generated access traces, as deep-learning jobs produce them: `gen:KIND[,parameter=value...]`,
// with
// `?` and `&` understood in place of the commas. The same text gives the same trace everywhere.
#pragma once

#include <string>
#include <string_view>

#include "traces/access_trace.h"

namespace batchflow {

bool is_generator(std::string_view name);  // begins with `gen:`

// Throws ConfigError naming the nearest kind or parameter. REQUIRES: is_generator(spec)
AccessTrace generate_access_trace(const std::string& spec, const Progress& progress = {});

// All kinds with their parameters and defaults, for people.
std::string generator_help();

}  // namespace batchflow
