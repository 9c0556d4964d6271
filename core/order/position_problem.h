// Which positions no job can be at. A position comes from a state that a user has kept, or from a
// log; each of its parts is checked here before anything goes on from it.
#pragma once

#include <string>

#include "core/order/position.h"

namespace batchflow::order {

// Why no job can be at this position; empty: one can.
std::string position_problem(const Position::Fields& fields);

}  // namespace batchflow::order
