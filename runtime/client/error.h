// The last error of each thread, for bf_last_error.
#pragma once

#include <string>

#include "runtime/client/batchflow.h"

namespace batchflow::client {

// Remembers `message`, which says what is wrong and what to do, and returns `status`.
bf_status fail(bf_status status, std::string message) noexcept;
const char* last_error() noexcept;

}  // namespace batchflow::client
