// The engine's state as text: what a person needs to see why nothing moves.
#pragma once

#include <string>

#include "core/engine/state.h"

namespace batchflow::engine {

std::string describe(const EngineState& state);

}  // namespace batchflow::engine
