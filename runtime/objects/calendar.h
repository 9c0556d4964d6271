// The time of day: signatures hold it, and lent keys end by it. Nothing else that decides anything
// in the runtime asks for it.
#pragma once

#include <chrono>

namespace batchflow::objects {

using Calendar = std::chrono::system_clock;

}  // namespace batchflow::objects
