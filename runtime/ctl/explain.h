// Why a job waits, in sentences: made of what the service says of it and of its policies' last
// decisions.
#pragma once

#include <string>
#include <string_view>

#include "nlohmann/json_fwd.hpp"

namespace batchflow::ctl {

// `status` and `decisions` as the service answers `status` and `explain`. Of all jobs, or of those
// called `job`; then with the decisions that name it.
std::string explain_text(const nlohmann::json& status, const nlohmann::json& decisions,
                         std::string_view job);

}  // namespace batchflow::ctl
