// What each user of the node may take of the service, so that no user gets in the way of another:
// connections, messages, memory of frames that are not whole, jobs, batches that are held.
//
// A user without a quota has the limits of `limits:`.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/types.h"
#include "programs/config/config.h"

namespace batchflow::service {

struct UserLimits {
  std::uint32_t jobs = 256;
  std::uint32_t connections = 2048;
  std::uint32_t messages_per_s =
      10000;                            // over the socket; what goes through rings is bounded there
  Bytes frame_bytes = Bytes{64} << 20;  // of frames that are not whole yet
  Bytes batch_bytes = 0;  // of batches in the hands of all the user's jobs; 0: no bound
  double weight = 1;      // of the stalls of the user's jobs, beside those of others
  friend bool operator==(const UserLimits&, const UserLimits&) = default;
};

struct Quotas {
  UserLimits of_all;
  std::map<uid_t, UserLimits> of_some;
  const UserLimits& limits_of(uid_t user) const {
    const auto found = of_some.find(user);
    return found == of_some.end() ? of_all : found->second;
  }
  friend bool operator==(const Quotas&, const Quotas&) = default;
};

// Reads the keys of UserLimits in `section`; a missing key is as in `fallback`. Throws ConfigError.
UserLimits read_user_limits(config::ConfigSection& section, const UserLimits& fallback);
// `key=value` changes this limit alone. Throws ConfigError.
void change_limit(UserLimits& limits, std::string_view assignment);
// By name or number; empty if the machine knows no such name.
std::optional<uid_t> find_user(const std::string& name_or_number);
// The name of the user, or the number if there is no name.
std::string user_name(uid_t user);

// What users take, and what they may take.
class Users {
 public:
  explicit Users(Quotas quotas) : quotas_(std::move(quotas)) {}

  const Quotas& quotas() const { return quotas_; }
  void set(Quotas quotas) {
    quotas_ = std::move(quotas);
    changed_();
  }
  void set(uid_t user, const UserLimits& limits) {
    quotas_.of_some[user] = limits;
    changed_();
  }
  // `changed` is called whenever limits have been set.
  void on_change(std::function<void()> changed) { changed_ = std::move(changed); }
  const UserLimits& limits(uid_t user) const { return quotas_.limits_of(user); }

  // False: the user has all the connections that the quota allows.
  bool connects(uid_t user);
  void disconnects(uid_t user);
  // A message has come. Answers for how long no other must be read from the same source.
  Duration message(uid_t user, Instant now);
  // `change` more bytes of unfinished frames, or fewer. False: more than the user may have.
  bool holds(uid_t user, std::int64_t change);
  std::uint32_t connections(uid_t user) const;

 private:
  struct Taken {
    std::uint32_t connections = 0;
    std::int64_t frame_bytes = 0;
    Instant paid_until{};  // each message moves it on by what one may cost
  };

  Quotas quotas_;
  std::function<void()> changed_ = [] {};
  std::map<uid_t, Taken> taken_;  // of users that are connected
};

}  // namespace batchflow::service
