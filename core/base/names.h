// The names of orders, forms and tiers: in states, messages, scenarios, journals and texts for
// people.
#pragma once

#include <cstddef>
#include <iterator>
#include <optional>
#include <string_view>

#include "core/base/types.h"

namespace batchflow {

// Names of the values of an enumeration, from a table that has one for each.
// `last`: the greatest value there is. A value from outside that the table does not have is "?".
template <auto last, std::size_t count>
constexpr std::string_view name_in(const std::string_view (&names)[count], decltype(last) value) {
  static_assert(count == static_cast<std::size_t>(last) + 1, "the table has a name for each value");
  const auto at = static_cast<std::size_t>(value);
  return at < count ? names[at] : "?";
}

inline constexpr std::string_view kOrderNames[] = {"strict", "sequential", "relaxed", "weighted",
                                                   "listed", "mixed",      "live"};

constexpr std::string_view name_of(Order order) {
  return name_in<Order::live>(kOrderNames, order);
}

// None: there is no such order.
constexpr std::optional<Order> order_named(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kOrderNames); ++i)
    if (kOrderNames[i] == name) return static_cast<Order>(i);
  return std::nullopt;
}

constexpr std::string_view name_of(Form form) {
  constexpr std::string_view kNames[] = {"encoded", "decoded", "prepared"};
  return name_in<Form::prepared>(kNames, form);
}

constexpr std::string_view name_of(Tier tier) {
  constexpr std::string_view kNames[] = {"gpu", "dram", "nvme", "store"};
  return name_in<Tier::store>(kNames, tier);
}

}  // namespace batchflow
