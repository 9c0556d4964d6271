#include "runtime/service/http/page_key.h"

#include <algorithm>

#include "runtime/protocol/secret.h"

namespace batchflow::service {
namespace {

constexpr std::string_view kName = "key=";

}  // namespace

KeyShown key_shown(std::string_view target, std::string_view key) {
  const std::size_t mark = target.find('?');
  std::string_view query = mark == target.npos ? std::string_view() : target.substr(mark + 1);
  while (!query.empty()) {
    const std::string_view one = query.substr(0, query.find('&'));
    if (one.starts_with(kName))
      return !key.empty() && protocol::same_secret(one.substr(kName.size()), key) ? KeyShown::right
                                                                                  : KeyShown::wrong;
    query.remove_prefix(std::min(query.size(), one.size() + 1));
  }
  return KeyShown::none;
}

}  // namespace batchflow::service
