// How threads hand a function to the service's thread: `Post` runs it there, and an engine step
// after it. Any thread may call it.
#pragma once

#include <functional>

namespace batchflow::service {

using Post = std::function<void(std::function<void()>)>;

}  // namespace batchflow::service
