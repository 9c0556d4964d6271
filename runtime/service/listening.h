// The socket that clients of this node find the service at.
#pragma once

#include <filesystem>

#include "runtime/protocol/descriptor.h"

namespace batchflow {

// Bound and listening. A file that nobody listens to any more is a leftover, and replaced. Throws
// ConfigError.
Descriptor listen_at(const std::filesystem::path& path);

}  // namespace batchflow
