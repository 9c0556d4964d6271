// The socket that clients of this node find the service at.
#pragma once

#include <filesystem>

#include "runtime/protocol/descriptor.h"

namespace batchflow {

// Bound and listening. A file that nobody listens to any more is a leftover, and replaced. Throws
// ConfigError.
Descriptor listen_at(const std::filesystem::path& path);

// The next connection; none, with why in errno, when nobody waits or this process can have no more.
Descriptor accept_at(const Descriptor& listening);

}  // namespace batchflow
