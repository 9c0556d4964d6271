// Structs of the C interface that have another size in the caller's header than in this library.
//
// A later minor version may add fields at the end of a struct. Its `struct_size` says which
// fields the caller has. A field that the caller lacks has its default, which is zero. A field that
// only the caller knows is neither read nor written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

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
#undef BF_FIRST_SIZE_

// What the caller says its struct's size is. `given` may be smaller than a Struct.
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

}  // namespace batchflow::client
