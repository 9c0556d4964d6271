// The store behind a URL, by HTTP.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/random.h"
#include "runtime/objects/credentials.h"
#include "runtime/objects/http_connection.h"
#include "runtime/objects/object_store.h"
#include "runtime/objects/url.h"

namespace batchflow::objects {

class HttpStore final : public ObjectStore {
 public:
  HttpStore(std::string text, Url url, const StoreSettings& settings);

  const std::string& url() const override { return text_; }
  const std::string& only() const override;
  void list(const Listed& listed) override;
  ObjectInfo look(std::string_view path) override;
  RangeAnswer read(std::string_view path, std::uint64_t mark, std::uint64_t offset,
                   std::span<std::byte> to, const std::atomic<bool>& stop) override;

 private:
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

  bool is_bucket() const { return url_.scheme == "s3" || url_.scheme == "gs"; }
  void set_endpoint();
  // Sends requests until one is answered well, or cannot be. `next` gives the memory for the rest.
  RangeAnswer ask(Asked asked, const std::function<std::span<std::byte>(Asked&)>& next,
                  const Judge& judge, const std::atomic<bool>& stop);
  HttpRequest request(const Asked& asked, const Endpoint& endpoint, const Keys& keys) const;
  Verdict judge_refusal(const HttpAnswer& answer, const Keys& keys);
  bool pause(unsigned tries, const std::string& retry_after, const std::atomic<bool>& stop);
  HttpAnswer exchange(const Endpoint& endpoint, const HttpRequest& request, std::span<std::byte> to,
                      const HttpLimits& limits);
  std::optional<std::string> fetch(const Credentials::Fetch& fetch, std::string& problem);

  void resolve() const;
  void resolve_now();
  void list_bucket(const std::string& prefix, Bytes keys_most, const Listed& listed);
  void list_page(const std::string& prefix, Bytes keys_most, std::string& continues,
                 std::string& last, const Listed& listed);
  std::optional<ObjectInfo> look_up(const std::string& key);
  std::string key_of(std::string_view path) const;
  HttpAnswer whole(const std::string& key, Query query, Bytes most);
  std::vector<std::string> names_of_http();

  const std::string text_;
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
  bool is_resolved_ = false;
  std::string prefix_;  // before each path
  std::string only_;
  std::mutex resolving_;
};

}  // namespace batchflow::objects
