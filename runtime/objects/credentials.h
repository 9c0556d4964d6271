// The keys that requests to S3 are signed with, and where they come from, in the order of AWS's own
// tools: the environment, a token of a web identity, the files `credentials` and `config`, the
// container's service, the machine's service. For Google: a token in the environment, keys of
// interoperability from the environment or those files, the machine's service. Keys that expire are
// asked for again before they do.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/objects/calendar.h"

namespace batchflow::objects {

struct Keys {
  std::string id, secret, token;
  std::string bearer;  // of Google: sent as it is, instead of a signature
  std::optional<Calendar::time_point> end;
  bool is_none() const { return id.empty() && bearer.empty(); }
  bool is_same(const Keys& other) const {
    return id == other.id && token == other.token && bearer == other.bearer;
  }
};

// What the files of AWS's tools say of one profile.
struct AwsProfile {
  std::string id, secret, token, region, endpoint, role;
};
// The profile that AWS_PROFILE names, or `default`, of the files where they usually are.
AwsProfile profile_of_files();
AwsProfile read_profile(std::string_view credentials, std::string_view config,
                        std::string_view name);

class Credentials {
 public:
  // `fetch` sends a request without a signature and answers its body; none: it failed, and
  // `problem` says why.
  struct Fetch {
    std::string method, url, token_header, token;
  };
  using Fetcher = std::function<std::optional<std::string>(const Fetch&, std::string& problem)>;
  Credentials(Fetcher fetcher, std::string region, bool of_google)
      : fetcher_(std::move(fetcher)), region_(std::move(region)), of_google_(of_google) {}

  // Keys that are good for a while. None: requests go without a signature. `refused`: keys that the
  // store has refused; if they are still held, others are asked for.
  Keys get(const Keys* refused = nullptr);
  // Why there are none, for people.
  std::string problem() const;

 private:
  Keys find();
  Keys from_environment();
  Keys from_web_identity();
  Keys from_container();
  Keys from_files();
  Keys from_machine();
  Keys from_google_machine();
  Keys parsed(std::string_view json);
  void note(std::string_view where, std::string_view what);

  const Fetcher fetcher_;
  const std::string region_;
  const bool of_google_;
  mutable std::mutex mutex_;
  bool looked_ = false;
  Keys keys_;
  std::chrono::steady_clock::time_point tried_{};
  std::string problem_;
};

// A time as `2026-11-28T16:00:00Z`; none: it is no time.
std::optional<Calendar::time_point> time_of(std::string_view text);

}  // namespace batchflow::objects
