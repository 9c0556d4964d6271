// The store behind a URL, by HTTP: lists what is below the URL, by pages of a bucket or by an index
// of shards, and reads ranges of its objects.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/objects/object_store.h"
#include "runtime/objects/store_requests.h"

namespace batchflow::objects {

class HttpStore final : public ObjectStore {
 public:
  HttpStore(std::string text, Url url, const StoreSettings& settings);

  const std::string& url() const override { return text_; }
  const std::string& only() const override;
  void list(const Listed& listed) override;
  ObjectInfo look(std::string_view path) override;
  RangeAnswer read(std::string_view path, std::uint64_t mark, std::uint64_t offset,
                   std::span<const std::span<std::byte>> to,
                   const std::atomic<bool>& stop) override;

 private:
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
  StoreRequests requests_;
  std::mutex resolving_;
  mutable std::mutex mutex_;  // of all below
  bool is_resolved_ = false;
  std::string prefix_;  // before each path
  std::string only_;
};

}  // namespace batchflow::objects
