// A key that lets its holder read the page with all names, as `batchflowctl status` shows them. The
// service makes one when it starts, and tells it to its own user and to root alone.
#pragma once

#include <string_view>

namespace batchflow::service {

enum class KeyShown {
  none,
  right,
  wrong,
};
// What the target of a request shows: `/?key=...`. An empty `key` is never right.
KeyShown key_shown(std::string_view target, std::string_view key);

}  // namespace batchflow::service
