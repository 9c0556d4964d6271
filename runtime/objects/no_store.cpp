// For builds without OpenSSL or Boost.
#include "runtime/objects/object_store.h"

namespace batchflow::objects {

bool is_url(std::string_view text) {
  return text.find("://") != std::string_view::npos;
}

std::shared_ptr<ObjectStore> open_store(std::string_view url, const StoreSettings&) {
  throw StoreError(
      std::string(url) +
      ": this BatchFlow was built without OpenSSL or Boost, and reads no URLs; install "
      "libssl-dev and libboost-dev and build it again, or copy the data here");
}

}  // namespace batchflow::objects
