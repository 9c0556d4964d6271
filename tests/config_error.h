// For tests of what is refused: the message of a ConfigError.
#pragma once

#include <string>

#include "core/base/config_value.h"

namespace batchflow::test {

// What `act` says when it throws a ConfigError; `none` where it throws nothing.
template <class Act>
std::string config_error(const Act& act, const char* none = "") {
  try {
    act();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return none;
}

}  // namespace batchflow::test
