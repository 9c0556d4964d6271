#include "runtime/objects/credentials.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "runtime/objects/text.h"
#include "runtime/objects/url.h"

namespace batchflow::objects {
namespace {

using namespace std::chrono_literals;

// Keys are asked for again when they are good for less than this; after a failure, not at once.
constexpr auto kRenewBefore = 300s;
constexpr auto kTryAgainAfter = 5s;

std::string home_file(const char* set, const std::string& name) {
  const std::string given = variable(set);
  return given.empty() ? variable("HOME") + "/.aws/" + name : given;
}

// Takes `key = value` lines of a section of an INI file.
template <class Take>
void each_setting(std::string_view text, std::string_view section, Take take) {
  std::istringstream lines{std::string(text)};
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(' ') || line.starts_with('\t')) continue;  // of a nested setting
    const std::string plain = trimmed(line);
    if (plain.empty() || plain.front() == '#' || plain.front() == ';') continue;
    if (plain.front() == '[') {
      inside = trimmed(plain.substr(1, plain.find(']') - 1)) == section;
    } else if (const std::size_t equals = plain.find('='); inside && equals != std::string::npos) {
      take(trimmed(plain.substr(0, equals)), trimmed(plain.substr(equals + 1)));
    }
  }
}

}  // namespace

std::optional<Calendar::time_point> time_of(std::string_view text) {
  std::tm time{};
  const std::string whole(text);
  const char* const end = strptime(whole.c_str(), "%Y-%m-%dT%H:%M:%S", &time);
  if (!end || (*end != 'Z' && *end != '.' && *end != '+')) return std::nullopt;
  return Calendar::from_time_t(timegm(&time));
}

AwsProfile read_profile(std::string_view credentials, std::string_view config,
                        std::string_view name) {
  AwsProfile profile;
  const auto take = [&](const std::string& key, const std::string& value) {
    const auto set = [&](std::string_view called, std::string& to) {
      if (key == called && to.empty()) to = value;
    };
    set("aws_access_key_id", profile.id);
    set("aws_secret_access_key", profile.secret);
    set("aws_session_token", profile.token);
    set("region", profile.region);
    set("endpoint_url", profile.endpoint);
    set("role_arn", profile.role);
  };
  each_setting(credentials, name, take);
  each_setting(config, name == "default" ? std::string(name) : fmt::format("profile {}", name),
               take);
  return profile;
}

Keys Credentials::get(const Keys* refused) {
  const std::lock_guard lock(mutex_);
  const auto now = Calendar::now();
  const bool others = refused && refused->is_same(keys_);
  const bool ends = keys_.end && *keys_.end - now < kRenewBefore;
  if (looked_ && !others && !ends) return keys_;
  const auto tried = std::chrono::steady_clock::now();
  const bool still_good = keys_.end && *keys_.end > now;
  // The keys that are held are used as long as they can be, and no service is asked all the time.
  if (looked_ && tried - tried_ < kTryAgainAfter && (still_good || others)) return keys_;
  tried_ = tried;
  problem_.clear();
  const Keys found = find();
  if (!found.is_none() || !still_good) keys_ = found;
  looked_ = true;
  return keys_;
}

std::string Credentials::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

void Credentials::note(std::string_view where, std::string_view what) {
  problem_ += fmt::format("{}{}: {}", problem_.empty() ? "" : "; ", where, what);
}

Keys Credentials::find() {
  Keys keys;
  if (of_google_) keys.bearer = variable("GOOGLE_OAUTH_ACCESS_TOKEN");
  if (keys.is_none()) keys = from_environment();
  if (keys.is_none() && !of_google_) keys = from_web_identity();
  if (keys.is_none()) keys = from_files();
  if (of_google_) return keys.is_none() ? from_google_machine() : keys;
  if (keys.is_none()) keys = from_container();
  if (keys.is_none()) keys = from_machine();
  return keys;
}

Keys Credentials::from_environment() {
  Keys keys;
  keys.id = variable("AWS_ACCESS_KEY_ID");
  keys.secret = variable("AWS_SECRET_ACCESS_KEY");
  keys.token = variable("AWS_SESSION_TOKEN");
  return keys;
}

AwsProfile profile_of_files() {
  const std::string name = variable("AWS_PROFILE");
  return read_profile(file_text(home_file("AWS_SHARED_CREDENTIALS_FILE", "credentials")),
                      file_text(home_file("AWS_CONFIG_FILE", "config")),
                      name.empty() ? "default" : name);
}

Keys Credentials::from_files() {
  const AwsProfile profile = profile_of_files();
  Keys keys;
  keys.id = profile.id;
  keys.secret = profile.secret;
  keys.token = profile.token;
  if (!keys.is_none()) return keys;
  const std::string name = variable("AWS_PROFILE");
  if (!profile.role.empty())
    note("the profile",
         "it takes a role by other keys (role_arn), which is not done here; have keys written by "
         "`aws configure export-credentials`");
  if (!name.empty()) note("AWS_PROFILE", fmt::format("{} has no keys", name));
  return keys;
}

Keys Credentials::from_google_machine() {
  if (variable("NO_GCE_CHECK") == "true") return {};
  std::string host = variable("GCE_METADATA_HOST");
  if (host.empty()) host = "metadata.google.internal";
  std::string problem;
  const auto answer = fetcher_(
      {"GET",
       fmt::format("http://{}/computeMetadata/v1/instance/service-accounts/default/token", host),
       "Metadata-Flavor", "Google"},
      problem);
  Keys keys;
  const nlohmann::json json = nlohmann::json::parse(answer.value_or(""), nullptr, false);
  if (json.is_object() && json.contains("access_token") && json["access_token"].is_string() &&
      json.contains("expires_in") && json["expires_in"].is_number_unsigned()) {
    keys.bearer = json["access_token"].get<std::string>();
    const auto lasts = std::min<std::uint64_t>(json["expires_in"].get<std::uint64_t>(), 86'400);
    keys.end = Calendar::now() + std::chrono::seconds(lasts);
  }
  if (keys.is_none()) note("the machine", problem.empty() ? "no token came" : problem);
  return keys;
}

Keys Credentials::from_web_identity() {
  const std::string file = variable("AWS_WEB_IDENTITY_TOKEN_FILE"), role = variable("AWS_ROLE_ARN");
  if (file.empty() || role.empty()) return {};
  const std::string token = trimmed(file_text(file));
  if (token.empty()) {
    note("AWS_WEB_IDENTITY_TOKEN_FILE", fmt::format("{} cannot be read", file));
    return {};
  }
  std::string name = variable("AWS_ROLE_SESSION_NAME"), endpoint = variable("AWS_ENDPOINT_URL_STS");
  if (name.empty()) name = "batchflow";
  if (endpoint.empty()) endpoint = fmt::format("https://sts.{}.amazonaws.com", region_);
  const std::string query = query_text({{"Action", "AssumeRoleWithWebIdentity"},
                                        {"Version", "2011-06-15"},
                                        {"RoleArn", role},
                                        {"RoleSessionName", name},
                                        {"WebIdentityToken", token}});
  std::string problem;
  const auto answer = fetcher_({"GET", endpoint + "/?" + query, "", ""}, problem);
  Keys keys;
  if (answer) {
    keys.id = unescaped(element(*answer, "AccessKeyId"));
    keys.secret = unescaped(element(*answer, "SecretAccessKey"));
    keys.token = unescaped(element(*answer, "SessionToken"));
    keys.end = time_of(element(*answer, "Expiration"));
  }
  if (keys.is_none()) note("the web identity", problem.empty() ? "no keys came" : problem);
  return keys;
}

Keys Credentials::parsed(std::string_view text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  const auto value = [&](const char* key) {
    const auto found = json.is_object() ? json.find(key) : json.end();
    return found != json.end() && found->is_string() ? found->get<std::string>() : "";
  };
  if (!json.is_object()) return {};
  Keys keys;
  keys.id = value("AccessKeyId");
  keys.secret = value("SecretAccessKey");
  keys.token = value("Token");
  keys.end = time_of(value("Expiration"));
  return keys;
}

Keys Credentials::from_container() {
  const std::string relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  std::string url = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (!relative.empty()) url = "http://169.254.170.2" + relative;
  if (url.empty()) return {};
  std::string token = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  // The file is written anew when its token ends.
  if (const std::string file = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); !file.empty())
    token = trimmed(file_text(file));
  std::string problem;
  const auto answer = fetcher_({"GET", url, token.empty() ? "" : "Authorization", token}, problem);
  const Keys keys = answer ? parsed(*answer) : Keys();
  if (keys.is_none()) note("the container", problem.empty() ? "no keys came" : problem);
  return keys;
}

Keys Credentials::from_machine() {
  if (variable("AWS_EC2_METADATA_DISABLED") == "true") return {};
  std::string base = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  if (base.empty()) base = "http://169.254.169.254";
  while (base.ends_with('/')) base.pop_back();
  std::string problem;
  const auto token =
      fetcher_({"PUT", base + "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", "21600"},
               problem);
  if (!token) {
    note("the machine", problem);
    return {};
  }
  const std::string at = base + "/latest/meta-data/iam/security-credentials/";
  const auto role = fetcher_({"GET", at, "X-aws-ec2-metadata-token", *token}, problem);
  if (!role || trimmed(*role).empty()) {
    note("the machine", problem.empty() ? "it has no role" : problem);
    return {};
  }
  const std::string name = trimmed(role->substr(0, role->find('\n')));
  const auto answer = fetcher_(
      {"GET", at + percent_encoded(name, false), "X-aws-ec2-metadata-token", *token}, problem);
  const Keys keys = answer ? parsed(*answer) : Keys();
  if (keys.is_none()) note("the machine", problem.empty() ? "no keys came" : problem);
  return keys;
}

}  // namespace batchflow::objects
