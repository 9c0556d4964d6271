// The time of day, which a signature holds, and at which lent keys end. Nothing else of the runtime
// that decides anything asks for it.
#pragma once

#include <chrono>

namespace batchflow::objects {

using Calendar = std::chrono::system_clock;

}  // namespace batchflow::objects
