// The requests to the store behind a URL: signed, redirected, and sent again if they fail for the
// moment. It owns the connections to the store and the keys. It is thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/random.h"
#include "runtime/objects/credentials.h"
#include "runtime/objects/http_connection.h"
#include "runtime/objects/object_store.h"
#include "runtime/objects/url.h"

namespace batchflow::objects {

class StoreRequests {
 public:
  // What is asked: of an object, or of a bucket (`key` empty, with a query).
  struct Asked {
    std::string method = "GET";
    std::string key = {};
    Query query = {};
    std::string range = {};  // `bytes=0-9`
    Bytes body_most = Bytes{64} << 10;
  };
  // What an answer means.
  struct Verdict {
    enum What { good, again, failed } what = good;
    int error = 0;
    std::string problem = {};
    bool moved_on = false;  // some of the bytes have come
  };
  using Judge = std::function<Verdict(HttpAnswer&)>;

  // `text` is the URL as messages show it. Throws StoreError where the URL cannot be used.
  StoreRequests(std::string_view text, Url url, const StoreSettings& settings);

  const Url& url() const { return url_; }
  bool is_bucket() const { return url_.scheme == "s3" || url_.scheme == "gs"; }
  // Sends requests until one is answered well, or none can be. `next` gives the memory for the rest
  // of the bytes.
  RangeAnswer ask(Asked asked, const std::function<Parts(Asked&)>& next, const Judge& judge,
                  const std::atomic<bool>& stop);

 private:
  void set_endpoint(std::string_view text);
  HttpRequest request(const Asked& asked, const Endpoint& endpoint, const Keys& keys) const;
  Verdict judge_refusal(const HttpAnswer& answer, const Keys& keys);
  bool pause(unsigned tries, const std::string& retry_after, const std::atomic<bool>& stop);
  HttpAnswer exchange(const Endpoint& endpoint, const HttpRequest& request, const Parts& to,
                      const HttpLimits& limits);
  std::optional<std::string> fetch(const Credentials::Fetch& fetch, std::string& problem);

  const Url url_;
  const StoreSettings settings_;
  TlsContext tls_;
  Endpoint endpoint_;
  bool path_style_ = true;
  std::string region_;
  std::unique_ptr<Credentials> credentials_;

  mutable std::mutex mutex_;  // of all below
  std::string region_told_;   // by the store
  std::vector<std::unique_ptr<HttpConnection>> idle_;
  Random random_;
};

}  // namespace batchflow::objects
