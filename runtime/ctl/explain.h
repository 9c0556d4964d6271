// Says in sentences why a job waits, from the service's status and the last decisions of its
// policies.
#pragma once

#include <string>
#include <string_view>

#include "nlohmann/json_fwd.hpp"

namespace batchflow::ctl {

// `status` and `decisions` are the service's answers to `status` and `explain`. The text is about
// all jobs, or about those called `job`, with the decisions that name it.
std::string explain_text(const nlohmann::json& status, const nlohmann::json& decisions,
                         std::string_view job);

}  // namespace batchflow::ctl
