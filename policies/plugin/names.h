// What policies and presets of plugins may be called.
#pragma once

#include <cstddef>
#include <string_view>

namespace batchflow::plugin {

inline constexpr std::size_t kNameMost = 60;

// Small letters, digits and hyphens.
constexpr bool is_policy_name(std::string_view name) {
  return !name.empty() && name.size() <= kNameMost &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string_view::npos;
}

}  // namespace batchflow::plugin
