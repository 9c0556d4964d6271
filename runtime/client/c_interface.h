// How values of the C interface become values of C++, and errors become what bf_last_error answers.
//
// A struct may have another size in the caller's header than in this library: a later minor version
// may add fields at its end. Its `struct_size` says which fields the caller has. A field that the
// caller lacks has its default, which is zero. A field that only the caller knows is neither read
// nor written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>

#include "core/base/types.h"
#include "runtime/client/batchflow.h"

namespace batchflow::client {

// How many bytes the struct had in the first version of the interface: up to the end of the field
// that was then its last. It stays as it is when fields are added.
template <class Struct>
inline constexpr std::size_t kFirstSize = 0;

#define BF_FIRST_SIZE_(type, last_field)          \
  template <>                                     \
  inline constexpr std::size_t kFirstSize<type> = \
      offsetof(type, last_field) + sizeof(type::last_field)
BF_FIRST_SIZE_(bf_loader_options, say_context);
BF_FIRST_SIZE_(bf_loader_info, field);
BF_FIRST_SIZE_(bf_loader_times, reconnects);
BF_FIRST_SIZE_(bf_batch, marks);
BF_FIRST_SIZE_(bf_samples_sum, pairs);
BF_FIRST_SIZE_(bf_mixture, changed_weights);
BF_FIRST_SIZE_(bf_feed_options, timeout_s);
BF_FIRST_SIZE_(bf_record, label);
BF_FIRST_SIZE_(bf_feed_info, waits);
BF_FIRST_SIZE_(bf_store_options, copy);
#undef BF_FIRST_SIZE_

// The size of the caller's struct, as the struct says. `given` may be smaller than a Struct.
template <class Struct>
std::size_t size_of_given(const Struct* given) {
  std::size_t size = 0;
  std::memcpy(&size, static_cast<const void*>(given), sizeof size);
  return size;
}

// Whether a caller's struct has the fields of the first version at least.
template <class Struct>
bool has_first_fields(const Struct* given) {
  static_assert(kFirstSize<Struct> > 0 && offsetof(Struct, struct_size) == 0);
  return given != nullptr && size_of_given(given) >= kFirstSize<Struct>;
}

// The caller's struct with all fields of this library's. REQUIRES: has_first_fields(given)
template <class Struct>
Struct whole_of(const Struct* given) {
  Struct whole{};
  std::memcpy(static_cast<void*>(&whole), static_cast<const void*>(given),
              std::min(size_of_given(given), sizeof whole));
  whole.struct_size = sizeof whole;
  return whole;
}

// Copies to the caller's struct the fields that it has, but for its size.
// REQUIRES: has_first_fields(given)
template <class Struct>
void give_fields(const Struct& whole, Struct* given) {
  constexpr std::size_t kSizeBytes = sizeof whole.struct_size;
  std::memcpy(reinterpret_cast<std::byte*>(given) + kSizeBytes,
              reinterpret_cast<const std::byte*>(&whole) + kSizeBytes,
              std::min(size_of_given(given), sizeof whole) - kSizeBytes);
}

inline constexpr Order kOrderOptions[] = {Order::relaxed,    Order::strict,
                                          Order::sequential, Order::weighted,
                                          Order::mixed,      Order::live};  // by bf_order
static_assert(std::size(kOrderOptions) == BF_LIVE + 1);

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

// Remembers `message`, which says what is wrong and what to do, and returns `status`.
bf_status fail(bf_status status, std::string message) noexcept;
const char* last_error() noexcept;

}  // namespace batchflow::client
