// Objects behind a URL: `s3://bucket/prefix`, `gs://bucket/prefix`, `http://` and `https://`.
//
// A store lists what is below its URL, and reads ranges of single objects. Requests that fail for
// the moment are sent again, at random times that grow, and a bounded number of times. An answer is
// believed only if it has the status, the range, the length and the object's mark that were asked
// for. It is thread-safe: each caller has a connection of its own while it reads.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/base/types.h"

namespace batchflow::objects {

// What is wrong, and what to do about it.
class StoreError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
// The object is there no more, or is another one by now.
class ObjectChanged : public StoreError {
 public:
  using StoreError::StoreError;
};

struct StoreSettings {
  // As the environment says: BATCHFLOW_STORE_TRIES, _IDLE_S, _REQUEST_S, _READS.
  static StoreSettings of_environment();

  std::string endpoint;                       // `http://host:port`; empty: by the environment
  unsigned tries = 8;                         // of a request
  std::chrono::milliseconds idle{10'000};     // without a byte, a request is given up
  std::chrono::milliseconds request{60'000};  // all of a request, and a second for each MiB
  std::chrono::milliseconds pause_first{100}, pause_most{5'000};  // between tries
  // Requests at once. One takes some tens of milliseconds, however small it is, so this bounds how
  // many small samples come in a second: here some 5,000, which is what S3 allows a prefix.
  unsigned reads = 128;
  friend bool operator==(const StoreSettings&, const StoreSettings&) = default;
};

struct ObjectInfo {
  Bytes bytes = 0;
  // A hash of what the store says of the object's contents (its ETag); another object of the same
  // name has another mark. Never 0.
  std::uint64_t mark = 0;
};

struct RangeAnswer {
  int error = 0;  // errno; 0: all bytes are there. ESTALE: the object has changed
  std::string problem;
  Bytes bytes = 0;
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // As given, without the part that may hold a password.
  virtual const std::string& url() const = 0;
  // Whether the URL is one object; its path below the URL is its name alone.
  virtual const std::string& only() const = 0;
  using Listed = std::function<void(std::string_view path, const ObjectInfo&)>;
  // Gives each object below the URL, in ascending order of paths, which are below the URL. Throws
  // StoreError, and what `listed` throws.
  virtual void list(const Listed& listed) = 0;
  // Throws StoreError.
  virtual ObjectInfo look(std::string_view path) = 0;
  // Reads into all of `to`, one part behind the other, from `offset` on. `mark` 0: of any object.
  // When `stop` becomes true it ends soon, with ECANCELED.
  virtual RangeAnswer read(std::string_view path, std::uint64_t mark, std::uint64_t offset,
                           std::span<const std::span<std::byte>> to,
                           const std::atomic<bool>& stop) = 0;
};

bool is_url(std::string_view text);
// Throws StoreError where the URL cannot be used; it sends no request.
std::shared_ptr<ObjectStore> open_store(
    std::string_view url, const StoreSettings& settings = StoreSettings::of_environment());

}  // namespace batchflow::objects
