// Fields of a service's answer. The service may have another version, so a missing field is 0 or
// empty.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace batchflow::ctl {

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

}  // namespace batchflow::ctl
