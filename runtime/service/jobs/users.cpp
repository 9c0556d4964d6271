#include "runtime/service/jobs/users.h"

#include <pwd.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "core/base/config_value.h"
#include "fmt/format.h"

namespace batchflow::service {
namespace {

// After this pause a second's worth of messages may come at once.
constexpr Duration kBurst = std::chrono::seconds(1);
constexpr double kWeightMost = 1000;

}  // namespace

UserLimits read_user_limits(config::ConfigSection& section, const UserLimits& fallback) {
  UserLimits limits = fallback;
  const auto count = [&](const char* key, std::uint32_t& value, std::int64_t least = 1) {
    value = static_cast<std::uint32_t>(section.integer(key, value, least, 1 << 20));
  };
  count("jobs", limits.jobs);
  // At least one for a job, and one for the command that raises the limit.
  count("connections", limits.connections, 2);
  count("messages_per_s", limits.messages_per_s);
  limits.frame_bytes = section.bytes("frame_bytes", limits.frame_bytes, Bytes{1} << 20);
  limits.batch_bytes = section.bytes("batch_bytes", limits.batch_bytes);
  limits.weight = section.number("weight", limits.weight, 1 / kWeightMost, kWeightMost);
  return limits;
}

void change_limit(UserLimits& limits, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos)
    throw ConfigError(fmt::format("'{}': no value; write key=value, as jobs=4", assignment));
  // The same reader, with the same bounds, as for a file.
  config::ConfigNode root;
  root.kind = config::ConfigNode::Kind::map;
  root.source.file = std::make_shared<const std::string>("quota");
  config::ConfigNode value;
  value.source = root.source;
  value.kind = config::ConfigNode::Kind::scalar;
  value.scalar = std::string(assignment.substr(equals + 1));
  root.map.push_back({std::string(assignment.substr(0, equals)), std::move(value)});
  config::read_config(
      root, [&](config::ConfigSection& section) { limits = read_user_limits(section, limits); });
}

std::optional<uid_t> find_user(const std::string& name_or_number) {
  uid_t user = 0;
  const char* const end = name_or_number.data() + name_or_number.size();
  const auto [stop, error] = std::from_chars(name_or_number.data(), end, user);
  if (error == std::errc() && stop == end && user != static_cast<uid_t>(-1)) return user;
  std::vector<char> memory(1 << 16);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwnam_r(name_or_number.c_str(), &entry, memory.data(), memory.size(), &found) == 0 &&
      found)
    return found->pw_uid;
  return std::nullopt;
}

std::string user_name(uid_t user) {
  std::vector<char> memory(1 << 16);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(user, &entry, memory.data(), memory.size(), &found) == 0 && found)
    return found->pw_name;
  return std::to_string(user);
}

bool Users::connects(uid_t user) {
  Taken& taken = taken_[user];
  if (taken.connections >= limits(user).connections) return false;
  ++taken.connections;
  return true;
}

void Users::disconnects(uid_t user) {
  const auto found = taken_.find(user);
  if (found != taken_.end() && --found->second.connections == 0) taken_.erase(found);
}

Duration Users::message(uid_t user, Instant now) {
  Taken& taken = taken_[user];
  const Duration cost = std::chrono::seconds(1);
  taken.paid_until = std::max(taken.paid_until, now - kBurst) + cost / limits(user).messages_per_s;
  return std::max(Duration(0), taken.paid_until - now);
}

bool Users::holds(uid_t user, std::int64_t change) {
  Taken& taken = taken_[user];
  taken.frame_bytes += change;
  return change <= 0 || taken.frame_bytes <= static_cast<std::int64_t>(limits(user).frame_bytes);
}

std::uint32_t Users::connections(uid_t user) const {
  const auto found = taken_.find(user);
  return found == taken_.end() ? 0 : found->second.connections;
}

}  // namespace batchflow::service
