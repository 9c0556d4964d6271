#pragma once

#include <functional>

namespace batchflow::service {

// Runs a function on the service's thread, and an engine step after it. Any thread may call it.
using Post = std::function<void(std::function<void()>)>;

}  // namespace batchflow::service
