// What batchflowctl prints for people, made of what the service answers.
#pragma once

#include <string>

#include "nlohmann/json_fwd.hpp"

namespace batchflow::ctl {

std::string status_text(const nlohmann::json& status);
std::string jobs_table(const nlohmann::json& status);
std::string datasets_table(const nlohmann::json& status);

// One line a second, in the manner of dstat: what has happened between two answers.
std::string stats_head();
std::string stats_line(const nlohmann::json& before, const nlohmann::json& now);

}  // namespace batchflow::ctl
