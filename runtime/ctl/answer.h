// A service's answer: its fields, and the texts that batchflowctl makes of it for people.
//
// The service may have another version, so a missing field is 0 or empty.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"
#include "programs/output/output_flags.h"

namespace batchflow::ctl {

// Where a job's next block may be, as the service names it (runtime/service/backend/stalls.h).
inline constexpr std::array<const char*, 5> kStages = {"storage", "preparation", "delivery", "room",
                                                       "records"};
// Only live jobs wait in that stage, so it is said where there is such a wait.
inline constexpr std::string_view kRecordsStage = "records";

inline double number(const nlohmann::json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_number() ? found->get<double>() : 0;
}
inline std::string text(const nlohmann::json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_string() ? found->get<std::string>() : std::string();
}
inline bool flag(const nlohmann::json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_boolean() && found->get<bool>();
}
inline const nlohmann::json& list(const nlohmann::json& from, const char* key) {
  static const nlohmann::json kNone = nlohmann::json::array();
  const auto found = from.find(key);
  return found != from.end() && found->is_array() ? *found : kNone;
}
inline const nlohmann::json& object(const nlohmann::json& from, const char* key) {
  static const nlohmann::json kNone = nlohmann::json::object();
  const auto found = from.find(key);
  return found != from.end() && found->is_object() ? *found : kNone;
}

std::string nodes_table(const nlohmann::json& status);
std::string status_text(const nlohmann::json& status);
std::string jobs_table(const nlohmann::json& status);
std::string datasets_table(const nlohmann::json& status);
std::string cache_text(const nlohmann::json& status);
std::string described_text(const nlohmann::json& answer);

// Parts of the same answers for programs.
nlohmann::json jobs_json(const nlohmann::json& status);
nlohmann::json datasets_json(const nlohmann::json& status);
nlohmann::json nodes_json(const nlohmann::json& status);
nlohmann::json cache_json(const nlohmann::json& status);

std::string quotas_table(const nlohmann::json& quotas);

// One line a second, in the manner of dstat, with what happened between two answers.
nlohmann::json stats_json(const nlohmann::json& before, const nlohmann::json& now);
std::string stats_head();
std::string stats_line(const nlohmann::json& before, const nlohmann::json& now);

std::string bytes_text(double bytes);
// Columns as wide as their widest entry; the first is left-aligned.
std::string table(const std::vector<std::vector<std::string>>& rows);
// Shows an answer of several lines: as JSON where that is wanted, else the text for people.
void write_answer(const output::OutputFlags& outputs, const nlohmann::json& answer,
                  const std::string& for_people);
// The text without characters that would move a cursor, line by line.
std::string printable_lines(const std::string& raw);

}  // namespace batchflow::ctl
