// Names of the values of an enumeration, from a table that has one for each.
#pragma once

#include <cstddef>
#include <string_view>

namespace batchflow {

// `last`: the greatest value there is. A value of which nothing is known, from outside, is "?".
template <auto last, std::size_t count>
constexpr std::string_view name_in(const std::string_view (&names)[count], decltype(last) value) {
  static_assert(count == static_cast<std::size_t>(last) + 1, "the table has a name for each value");
  const auto at = static_cast<std::size_t>(value);
  return at < count ? names[at] : "?";
}

}  // namespace batchflow
