// Whether a job that joins can be served, and as what. Nothing changes by this check; whether there
// is memory for the job is asked later (core/engine/reserves.h).
#pragma once

#include <variant>

#include "core/engine/state.h"

namespace batchflow::engine {

struct JoinsAs {
  bool chosen = false;       // a policy chooses its samples
  order::Position position;  // where it begins
};

// `policy_chooses`: of a job without a position, that the selection policy chooses its samples.
std::variant<JoinsAs, Refuse> check_join(const EngineState& s, const JobJoined& event,
                                         bool policy_chooses);

}  // namespace batchflow::engine
