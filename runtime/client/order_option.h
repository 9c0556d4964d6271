// Orders as the C interface numbers them.
#pragma once

#include <cstddef>
#include <cstring>
#include <iterator>
#include <optional>

#include "core/base/types.h"
#include "runtime/client/batchflow.h"

namespace batchflow::client {

inline constexpr Order kOrderOptions[] = {Order::relaxed, Order::strict, Order::sequential,
                                          Order::weighted};  // by bf_order
static_assert(std::size(kOrderOptions) == BF_WEIGHTED + 1);

// A C program may have written any number where an enum is.
template <class Enum>
int number_of(const Enum& value) {
  int number = 0;
  static_assert(sizeof number == sizeof value);
  std::memcpy(&number, &value, sizeof number);
  return number;
}

// None: it is no order.
inline std::optional<Order> order_of_option(const bf_order& option) {
  const int number = number_of(option);
  if (number < 0 || number >= static_cast<int>(std::size(kOrderOptions))) return std::nullopt;
  return kOrderOptions[number];
}

// None: a job cannot ask for it, since it is a listed order.
inline std::optional<bf_order> option_of(Order order) {
  for (std::size_t i = 0; i < std::size(kOrderOptions); ++i)
    if (kOrderOptions[i] == order) return static_cast<bf_order>(i);
  return std::nullopt;
}

}  // namespace batchflow::client
