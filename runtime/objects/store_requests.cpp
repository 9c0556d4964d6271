#include "runtime/objects/store_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <thread>

#include "runtime/objects/signing.h"
#include "runtime/objects/text.h"

namespace batchflow::objects {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kIdleMost = 256;  // connections that are kept
constexpr unsigned kRedirectsMost = 5;
constexpr unsigned kRoundsMost = 64;  // tries, also those that brought something
constexpr Bytes kMebibyte = Bytes{1} << 20;

}  // namespace

StoreRequests::StoreRequests(std::string_view text, Url url, const StoreSettings& settings)
    : url_(std::move(url)),
      settings_(settings),
      tls_(variable("AWS_CA_BUNDLE")),
      random_(mix(static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()) ^
                  reinterpret_cast<std::uintptr_t>(this))) {
  set_endpoint(text);
}

void StoreRequests::set_endpoint(std::string_view text) {
  if (!is_bucket()) {
    endpoint_ = url_.endpoint;
    return;
  }
  const bool google = url_.scheme == "gs";
  const AwsProfile profile = google ? AwsProfile() : profile_of_files();
  region_ = google ? "auto"
                   : first_filled({variable("AWS_REGION"), variable("AWS_DEFAULT_REGION"),
                                   profile.region, "us-east-1"});
  const std::string given =
      google ? first_filled({settings_.endpoint, variable("STORAGE_EMULATOR_HOST")})
             : first_filled({settings_.endpoint, variable("AWS_ENDPOINT_URL_S3"),
                             variable("AWS_ENDPOINT_URL"), profile.endpoint});
  if (!given.empty()) {
    Url at;
    const std::string whole = is_url(given) ? given : "http://" + given;
    if (const std::string problem = parse_url(whole, at);
        !problem.empty() || at.endpoint.host.empty())
      throw StoreError(
          fmt::format("{}: the endpoint '{}' cannot be used ({}); write it as "
                      "https://host:port",
                      text, given, problem));
    endpoint_ = at.endpoint;
  } else if (google) {
    endpoint_ = {true, "storage.googleapis.com", 443};
  } else {
    // Certificates are for one more name before the region, so not for buckets with dots.
    path_style_ = url_.bucket.find('.') != std::string::npos;
    endpoint_ = {
        true, fmt::format("{}s3.{}.amazonaws.com", path_style_ ? "" : url_.bucket + ".", region_),
        443};
  }
  credentials_ = std::make_unique<Credentials>(
      [this](const Credentials::Fetch& one, std::string& problem) { return fetch(one, problem); },
      region_, google);
}

// A request to a service of keys, which is near and answers at once, or is not there.
std::optional<std::string> StoreRequests::fetch(const Credentials::Fetch& fetch,
                                                std::string& problem) {
  Url url;
  if (problem = parse_url(fetch.url, url); !problem.empty()) return std::nullopt;
  HttpRequest request;
  request.method = fetch.method;
  request.target = "/" + url.path + (url.query.empty() ? "" : "?" + url.query);
  if (!fetch.token_header.empty()) request.headers.emplace_back(fetch.token_header, fetch.token);
  // Nothing that was read from a variable or a file may end a line.
  for (const auto& [name, value] : request.headers)
    if (value.find_first_of("\r\n") != std::string::npos) {
      problem = "its token has several lines";
      return std::nullopt;
    }
  for (unsigned tries = 0; tries < 3; ++tries) {
    HttpConnection connection(url.endpoint, tls_);
    HttpLimits limits;
    limits.idle = milliseconds(url.endpoint.tls ? 5000 : 1000);
    limits.until = Clock::now() + 2 * limits.idle;
    const HttpAnswer answer = connection.exchange(request, {}, limits);
    if (answer.is_whole && answer.status == 200) return answer.body;
    problem = answer.status == 0 ? answer.problem : fmt::format("it answers {}", answer.status);
    if (answer.status == 0 || (answer.status >= 400 && answer.status < 500)) return std::nullopt;
  }
  return std::nullopt;
}

HttpRequest StoreRequests::request(const Asked& asked, const Endpoint& endpoint,
                                   const Keys& keys) const {
  HttpRequest request;
  request.method = asked.method;
  std::string path = is_bucket() ? percent_encoded(asked.key, true) : asked.key;
  if (is_bucket() && path_style_) path = url_.bucket + (path.empty() ? "" : "/") + path;
  request.target = "/" + path;
  if (!asked.query.empty()) request.target += "?" + query_text(asked.query);
  if (!is_bucket() && !url_.query.empty()) request.target += "?" + url_.query;
  if (!asked.range.empty()) request.headers.emplace_back("Range", asked.range);
  if (!keys.bearer.empty()) {
    request.headers.emplace_back("Authorization", "Bearer " + keys.bearer);
  } else if (!keys.is_none()) {
    std::string region = region_;
    {
      const std::lock_guard lock(mutex_);
      if (!region_told_.empty()) region = region_told_;
    }
    sign(request, endpoint.host_header(), keys, region, "s3", Calendar::now());
  }
  return request;
}

HttpAnswer StoreRequests::exchange(const Endpoint& endpoint, const HttpRequest& request,
                                   const Parts& to, const HttpLimits& limits) {
  for (;;) {
    std::unique_ptr<HttpConnection> connection;
    {
      const std::lock_guard lock(mutex_);
      const auto found = std::find_if(idle_.rbegin(), idle_.rend(),
                                      [&](const auto& one) { return one->endpoint() == endpoint; });
      if (found != idle_.rend()) {
        connection = std::move(*found);
        idle_.erase(std::next(found).base());
      }
    }
    if (!connection) connection = std::make_unique<HttpConnection>(endpoint, tls_);
    const bool was_used = connection->was_used();
    HttpAnswer answer = connection->exchange(request, to, limits);
    // The other end may have closed a connection that was not used for a while.
    if (was_used && answer.status == 0 && !answer.is_late && !(limits.stop && *limits.stop))
      continue;
    const std::lock_guard lock(mutex_);
    if (connection->is_open() && idle_.size() < kIdleMost) idle_.push_back(std::move(connection));
    return answer;
  }
}

bool StoreRequests::pause(unsigned tries, const std::string& retry_after,
                          const std::atomic<bool>& stop) {
  const auto most = std::min<std::int64_t>(settings_.pause_most.count(),
                                           settings_.pause_first.count() << std::min(tries, 20U));
  std::int64_t wait_ms = 0;
  {
    const std::lock_guard lock(mutex_);
    wait_ms = static_cast<std::int64_t>(
        random_.below(static_cast<std::uint64_t>(std::max<std::int64_t>(most, 0)) + 1));
  }
  unsigned asked_s = 0;
  std::from_chars(retry_after.data(), retry_after.data() + retry_after.size(), asked_s);
  wait_ms = std::max(
      wait_ms, std::min<std::int64_t>(std::int64_t{asked_s} * 1000, settings_.pause_most.count()));
  const auto until = Clock::now() + milliseconds(wait_ms);
  while (Clock::now() < until && !stop)
    std::this_thread::sleep_for(std::min<Clock::duration>(milliseconds(50), until - Clock::now()));
  return !stop;
}

// What is the matter with an answer that is no success.
StoreRequests::Verdict StoreRequests::judge_refusal(const HttpAnswer& answer, const Keys& keys) {
  const unsigned status = answer.status;
  if (status == 0) return {Verdict::again, EREMOTEIO, answer.problem};
  std::string code(until_control(element(answer.body, "Code")));
  const std::string what = fmt::format("it answers {}{}{}", status, code.empty() ? "" : " ", code);
  const auto is_one_of = [&](std::initializer_list<std::string_view> codes) {
    return std::find(codes.begin(), codes.end(), code) != codes.end();
  };
  if (!answer.region.empty() && is_bucket() && (status == 301 || status == 307 || status == 400)) {
    const std::lock_guard lock(mutex_);
    const bool is_new = region_told_.empty() && answer.region != region_;
    region_told_ = answer.region;
    if (is_new && path_style_) return {Verdict::again, EREMOTEIO, what};
    if (is_new || status == 301)
      return {Verdict::failed, EKEYREJECTED,
              fmt::format("{}: its region is {}; set AWS_REGION to it", what, answer.region)};
  }
  if (status == 401 || is_one_of({"ExpiredToken", "ExpiredTokenException", "InvalidToken",
                                  "TokenRefreshRequired", "RequestExpired"})) {
    credentials_ ? void(credentials_->get(&keys)) : void();
    return {credentials_ ? Verdict::again : Verdict::failed, EKEYREJECTED,
            what + "; the keys have ended, and no others came"};
  }
  if (is_one_of({"RequestTimeTooSkewed"}))
    return {Verdict::failed, EKEYREJECTED, what + "; set this machine's clock"};
  if (status == 404 || status == 410) return {Verdict::failed, ENOENT, what};
  if (status == 416 || status == 412)
    return {Verdict::failed, ESTALE, "the object has changed: " + what};
  if (status == 401 || status == 403) {
    const bool none = keys.is_none() && credentials_;
    const std::string looked = none ? credentials_->problem() : "";
    return {Verdict::failed, EKEYREJECTED,
            none ? fmt::format("{}; no keys were found{}{} (docs/operations.md, Data in stores)",
                               what, looked.empty() ? "" : ": ", looked)
                 : what + "; let these keys read it"};
  }
  if (status == 408 || status == 425 || status == 429 || status >= 500)
    return {Verdict::again, EREMOTEIO, what};
  return {Verdict::failed, EREMOTEIO, what};
}

RangeAnswer StoreRequests::ask(Asked asked, const std::function<Parts(Asked&)>& next,
                               const Judge& judge, const std::atomic<bool>& stop) {
  Endpoint endpoint = endpoint_;
  unsigned tries = 0, redirects = 0;
  std::optional<HttpRequest> redirected;
  for (unsigned rounds = 1;; ++rounds) {
    if (stop) return {ECANCELED, "stopped", 0};
    const Parts to = next(asked);
    const Keys keys = credentials_ ? credentials_->get() : Keys();
    HttpLimits limits;
    limits.idle = settings_.idle;
    limits.until = Clock::now() + settings_.request +
                   milliseconds(1000 * (to.left() / kMebibyte + asked.body_most / kMebibyte));
    limits.body_most = asked.body_most;
    limits.stop = &stop;
    HttpRequest sent = redirected ? *redirected : request(asked, endpoint, keys);
    if (redirected && !asked.range.empty()) sent.headers = {{"Range", asked.range}};
    HttpAnswer answer = exchange(endpoint, sent, to, limits);
    if (stop) return {ECANCELED, "stopped", 0};
    if (!is_bucket() && answer.status >= 300 && answer.status < 400 && !answer.location.empty()) {
      Url there;
      const std::string whole = answer.location.starts_with('/')
                                    ? fmt::format("{}://{}{}", endpoint.tls ? "https" : "http",
                                                  endpoint.host_header(), answer.location)
                                    : answer.location;
      const bool good = parse_url(whole, there).empty() && !there.endpoint.host.empty() &&
                        (there.endpoint.tls || !endpoint.tls);
      if (!good || ++redirects > kRedirectsMost)
        return {EREMOTEIO,
                good ? "it leads elsewhere again and again" : "it leads to what is no web page", 0};
      endpoint = there.endpoint;
      redirected.emplace();
      redirected->method = asked.method;
      redirected->target = "/" + there.path + (there.query.empty() ? "" : "?" + there.query);
      if (!asked.range.empty()) redirected->headers = {{"Range", asked.range}};
      continue;
    }
    const bool success = answer.status == 200 || answer.status == 206;
    const Verdict verdict = success ? judge(answer) : judge_refusal(answer, keys);
    if (verdict.what == Verdict::good) return {0, "", 0};
    if (verdict.moved_on) tries = 0;
    if (verdict.what == Verdict::failed || ++tries >= settings_.tries || rounds >= kRoundsMost)
      return {verdict.error,
              verdict.what == Verdict::failed
                  ? verdict.problem
                  : fmt::format("{} (after {} tries)", verdict.problem, rounds),
              0};
    // Where a redirect led may be good for a while only.
    if (redirected) {
      redirected.reset();
      endpoint = endpoint_;
      redirects = 0;
    }
    if (!pause(tries, answer.retry_after, stop)) return {ECANCELED, "stopped", 0};
  }
}

}  // namespace batchflow::objects
